package view

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Digest is the sum of the digests of a table's routes, so that it can be kept
// up to date by what changed. Two tables of one content have one digest.
type Digest [2]uint64

func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d[0], d[1]) }

// ParseDigest reads what String wrote; the empty string is the digest of nothing.
func ParseDigest(s string) (Digest, error) {
	if s == "" {
		return Digest{}, nil
	}
	if len(s) != 32 {
		return Digest{}, fmt.Errorf("cannot read digest %q: expected 32 hexadecimal digits", s)
	}
	var d Digest
	for i := range d {
		n, err := strconv.ParseUint(s[16*i:16*i+16], 16, 64)
		if err != nil {
			return Digest{}, fmt.Errorf("cannot read digest %q: expected 32 hexadecimal digits", s)
		}
		d[i] = n
	}
	return d, nil
}

func (d Digest) add(o Digest) Digest { return Digest{d[0] + o[0], d[1] + o[1]} }
func (d Digest) sub(o Digest) Digest { return Digest{d[0] - o[0], d[1] - o[1]} }

// DigestOf is the digest of one route. An absent list and an empty one are the
// same content. A field that is added later and left zero changes no digest.
func DigestOf(r Route) Digest {
	for i, s := range r.Splits {
		if s.Allowed == nil {
			r.Splits = slices.Clone(r.Splits)
			r.Splits[i].Allowed = []string{}
		}
	}
	b, err := json.Marshal(r)
	if err != nil { // a Route holds nothing that JSON cannot say
		panic("view: cannot encode a route: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return Digest{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}
