package view

import (
	"fmt"
	"strconv"
	"strings"
)

// Epoch is one term of leadership in a region. Every command to a host and
// every table to a gateway carries one; who keeps the highest refuses less.
type Epoch struct {
	// Incarnation is the random identity minted with the store. Numbers are
	// compared only within one incarnation.
	Incarnation string `json:"incarnation"`
	Number      uint64 `json:"number"`
	// Nonce is the leader's own: the same number with another nonce means
	// that two stores think they are one.
	Nonce string `json:"nonce"`
}

// Zero says that no epoch is held yet.
func (e Epoch) Zero() bool { return e == Epoch{} }

func (e Epoch) String() string {
	return fmt.Sprintf("%s/%d/%s", e.Incarnation, e.Number, e.Nonce)
}

// Order is what a comparison of two epochs or versions can say.
type Order int

const (
	Older   Order = -1
	Same    Order = 0
	Newer   Order = 1
	Foreign Order = 2 // another incarnation: not comparable
	Rival   Order = 3 // the same number under another nonce: two leaders of one number
)

// Against says how e stands to held.
func (e Epoch) Against(held Epoch) Order {
	switch {
	case e.Incarnation != held.Incarnation:
		return Foreign
	case e.Number < held.Number:
		return Older
	case e.Number > held.Number:
		return Newer
	case e.Nonce != held.Nonce:
		return Rival
	default:
		return Same
	}
}

// Version numbers a view: (region, incarnation, epoch, counter). For the route
// table the counter is the store's sequence at which the table is true.
type Version struct {
	Region      string `json:"region,omitempty"`
	Incarnation string `json:"incarnation"`
	Epoch       uint64 `json:"epoch"`
	Counter     uint64 `json:"counter"`
}

// Zero says that no view is held yet.
func (v Version) Zero() bool { return v == Version{} }

// Against says how v stands to held. The epoch counts before the counter.
func (v Version) Against(held Version) Order {
	switch {
	case v.Region != held.Region || v.Incarnation != held.Incarnation:
		return Foreign
	case v.Epoch != held.Epoch:
		return sign(v.Epoch > held.Epoch)
	case v.Counter != held.Counter:
		return sign(v.Counter > held.Counter)
	default:
		return Same
	}
}

func sign(newer bool) Order {
	if newer {
		return Newer
	}
	return Older
}

// String is the version as it is shown outside protobuf, e.g. "7f3a9c/3/1204",
// with the region before it where there is one.
func (v Version) String() string {
	if v.Zero() {
		return ""
	}
	s := v.Incarnation + "/" + strconv.FormatUint(v.Epoch, 10) + "/" + strconv.FormatUint(v.Counter, 10)
	if v.Region != "" {
		s = v.Region + "/" + s
	}
	return s
}

// ParseVersion reads what String wrote.
func ParseVersion(s string) (Version, error) {
	if s == "" {
		return Version{}, nil
	}
	parts := strings.Split(s, "/")
	var v Version
	if len(parts) == 4 {
		v.Region, parts = parts[0], parts[1:]
	}
	if len(parts) != 3 || parts[0] == "" {
		return Version{}, fmt.Errorf("cannot read version %q: expected incarnation/epoch/counter", s)
	}
	v.Incarnation = parts[0]
	var err error
	if v.Epoch, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return Version{}, fmt.Errorf("cannot read version %q: bad epoch", s)
	}
	if v.Counter, err = strconv.ParseUint(parts[2], 10, 64); err != nil {
		return Version{}, fmt.Errorf("cannot read version %q: bad counter", s)
	}
	return v, nil
}
