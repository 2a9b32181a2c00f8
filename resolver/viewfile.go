package resolver

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fairlead-platform/fairlead/view"
)

// Body 2 of a view is the snapshot in JSON without what was told of endpoints,
// its length before it, and then these endpoints: their number, and of each its
// fields in their order, strings with their length before them. They are most of a
// file, and a caller that starts reads hundreds of files before its first request.

var errTruncated = errors.New("it ends in the middle of an endpoint")

func marshalView(x any) ([]byte, error) {
	s, ok := x.(view.ServiceSnapshot)
	if !ok {
		return nil, fmt.Errorf("a %T is no view", x)
	}
	endpoints := s.Told.Endpoints
	s.Told.Endpoints = nil
	rest, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	b := append(binary.AppendUvarint(make([]byte, 0, len(rest)+120*len(endpoints)+20), uint64(len(rest))), rest...)
	b = binary.AppendUvarint(b, uint64(len(endpoints)))
	for i := range endpoints {
		b = appendEndpoint(b, &endpoints[i])
	}
	return b, nil
}

func appendEndpoint(b []byte, e *view.Endpoint) []byte {
	for _, s := range [...]string{e.ID, e.Revision, e.Address, e.Zone} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = binary.AppendVarint(b, int64(e.Weight))
	b = append(binary.AppendUvarint(b, uint64(len(e.Verdict))), e.Verdict...)
	if e.HealthUnknown {
		return append(b, 1)
	}
	return append(b, 0)
}

// dormant is a view as its file says it: what was told of endpoints is still to
// be read, which need not be before somebody asks.
type dormant struct {
	view.ServiceSnapshot
	endpoints []byte // nil: they are read
}

// UnmarshalJSON reads body 1.
func (d *dormant) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &d.ServiceSnapshot) }

func unmarshalView(body []byte, into any) error {
	d, ok := into.(*dormant)
	if !ok {
		return fmt.Errorf("a %T is no view", into)
	}
	length, n := binary.Uvarint(body)
	if n <= 0 || length > uint64(len(body)-n) {
		return errTruncated
	}
	d.endpoints = body[n+int(length):]
	return json.Unmarshal(body[n:n+int(length)], &d.ServiceSnapshot)
}

// wake reads the endpoints.
func (d *dormant) wake() error {
	if d.endpoints == nil {
		return nil
	}
	r := reader{rest: string(d.endpoints)} // every string is a part of this one
	count := r.number()
	if count > uint64(len(r.rest)) { // an endpoint has at least a byte
		return errTruncated
	}
	endpoints := make([]view.Endpoint, count)
	for i := range endpoints {
		endpoints[i] = r.endpoint()
	}
	if r.failed || r.rest != "" {
		return errTruncated
	}
	d.Told.Endpoints, d.endpoints = endpoints, nil
	return nil
}

// reader takes fields from the front of rest.
type reader struct {
	rest   string
	failed bool
}

func (r *reader) endpoint() (e view.Endpoint) {
	e.ID, e.Revision, e.Address, e.Zone = r.text(), r.text(), r.text(), r.text()
	weight := r.number()
	e.Weight = int(int64(weight>>1) ^ -int64(weight&1)) // as binary.Varint
	e.Verdict = verdict(r.text())
	e.HealthUnknown = r.number() == 1
	return e
}

func (r *reader) number() (x uint64) {
	for shift := 0; shift < 64; shift += 7 {
		if r.rest == "" {
			break
		}
		b := r.rest[0]
		r.rest = r.rest[1:]
		x |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return x
		}
	}
	r.failed = true
	return 0
}

func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.failed, r.rest = true, ""
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

// verdict without a string of its own.
func verdict(s string) view.Verdict {
	for _, v := range [...]view.Verdict{view.Eligible, view.Degraded, view.Ineligible, view.Unknown} {
		if s == string(v) {
			return v
		}
	}
	return view.Verdict(s)
}
