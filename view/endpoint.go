package view

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"iter"
	"slices"
)

// Verdict is what the plane believes of an endpoint. The fourth value says
// that nobody sees it, which says nothing about it.
type Verdict string

const (
	Eligible   Verdict = "eligible"
	Degraded   Verdict = "degraded"
	Ineligible Verdict = "ineligible"
	Unknown    Verdict = "unknown"
)

// In reports whether the verdict leaves an endpoint in rotation.
func (v Verdict) In() bool { return v != Ineligible }

// FullWeight of an endpoint; weights are in thousandths.
const FullWeight = 1000

// Endpoint is an instance as its callers see it.
type Endpoint struct {
	// ID is the instance's identity: one process's, never used again.
	ID       string `json:"id"`
	Revision string `json:"revision,omitempty"`
	// Address is host:port, or a URL.
	Address string `json:"address"`
	Zone    string `json:"zone,omitempty"`
	// Weight in thousandths, ramp included. 0 is not to be used: its health
	// keeps it out. It is listed so that who knows of it otherwise, or used it
	// before, tells that from an end.
	Weight int `json:"weight"`
	// Verdict is the truth also where the guard disregards it.
	Verdict Verdict `json:"verdict"`
	// HealthUnknown says that its runtime supplies no signal of its own.
	HealthUnknown bool `json:"healthUnknown,omitempty"`
}

// In reports whether the endpoint is to be used.
func (e Endpoint) In() bool { return e.Weight > 0 }

// ZoneMark is what callers are told of one set in one zone.
type ZoneMark struct {
	// Group is the routable set; Zone is empty where small zones are pooled.
	Group string `json:"group"`
	Zone  string `json:"zone,omitempty"`
	// DegradedConfidence says that health is disregarded here: too little of
	// the set would have been left.
	DegradedConfidence bool `json:"degradedConfidence,omitempty"`
	// Counted instances, and how many of them are in rotation by their verdicts.
	Counted int `json:"counted"`
	In      int `json:"in"`
}

// Service is the view of one service: the endpoints of the revisions that its
// route names.
type Service struct {
	Name    string  `json:"name"`
	Version Version `json:"version"`
	Epoch   Epoch   `json:"epoch"`
	// Deleted says that the service is gone, and Empty that it has no
	// instances by intent: only then does an empty view empty its callers.
	Deleted bool `json:"deleted,omitempty"`
	Empty   bool `json:"empty,omitempty"`
	// Shed says that more is known than is in the view: what takes no traffic
	// from trouble waits, because more changes than can be sent. It says nothing
	// of the content, and is in no digest.
	Shed bool `json:"shed,omitempty"`
	// Callers that the service's policy allows; none is everyone. It is in no
	// digest: every change tells it whole.
	Callers []string `json:"callers,omitempty"`
	// AnyZone has callers pick from all zones alike; else they prefer their own.
	// Like Callers it is in no digest, which holders of earlier programs compute too.
	AnyZone bool `json:"anyZone,omitempty"`
	// Tags of the service's route, by name. Like Callers they are in no digest.
	Tags []Tag `json:"tags,omitempty"`
	// Shares of the route: which part of the requests goes to which revisions. What
	// none names, or only one of 0%, is reached by its tag alone. Nil is not known:
	// all are picked by their weight. Like Callers they are in no digest.
	Shares []Share `json:"shares,omitempty"`
	// Endpoints by ID, and Marks by group and zone, each sorted.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Marks     []ZoneMark `json:"marks,omitempty"`
	// Sum is the content's digest once that is computed, so that the next
	// view's follows from what changed; zero is not yet.
	Sum Digest `json:"-"`
}

// Endpoint finds one by its identity.
func (s *Service) Endpoint(id string) (Endpoint, bool) {
	i, ok := slices.BinarySearchFunc(s.Endpoints, id, byID)
	if !ok {
		return Endpoint{}, false
	}
	return s.Endpoints[i], true
}

// InRotation counts the endpoints that are to be used.
func (s *Service) InRotation() (n int) {
	if s == nil {
		return 0
	}
	for i := range s.Endpoints {
		if s.Endpoints[i].In() {
			n++
		}
	}
	return n
}

// Disregarded says whether health is disregarded in a zone of a group.
func (s *Service) Disregarded(group, zone string) bool {
	pooled := false
	for _, m := range s.Marks {
		switch {
		case m.Group != group:
		case m.Zone == zone:
			return m.DegradedConfidence
		case m.Zone == "":
			pooled = m.DegradedConfidence
		}
	}
	return pooled
}

func byID(e Endpoint, id string) int {
	switch {
	case e.ID < id:
		return -1
	case e.ID > id:
		return 1
	}
	return 0
}

// Digest of the content, whatever the version: the sum of its parts' digests.
func (s *Service) Digest() Digest {
	if s.Sum != (Digest{}) {
		return s.Sum
	}
	d := s.rest()
	for i := range s.Endpoints {
		d = d.add(s.Endpoints[i].digest())
	}
	return d
}

// Seal computes the sum: by what differs from old, where that has one. The
// content must not change after it.
func (s *Service) Seal(old *Service) {
	w := Between(old, s)
	w.Seal()
}

// differing goes through what is not the same in both: nil where one of them
// lacks it.
func differing(old, now []Endpoint) iter.Seq2[*Endpoint, *Endpoint] {
	return func(yield func(was, is *Endpoint) bool) {
		i, k := 0, 0
		for i < len(old) || k < len(now) {
			var was, is *Endpoint
			switch {
			case k == len(now) || i < len(old) && old[i].ID < now[k].ID:
				was, i = &old[i], i+1
			case i == len(old) || old[i].ID > now[k].ID:
				is, k = &now[k], k+1
			default:
				was, is, i, k = &old[i], &now[k], i+1, k+1
			}
			if was != nil && is != nil && *was == *is {
				continue
			}
			if !yield(was, is) {
				return
			}
		}
	}
}

// rest is the digest of all but the endpoints.
func (s *Service) rest() (d Digest) {
	for i := range s.Marks {
		d = d.add(digestOf("mark", &s.Marks[i]))
	}
	return d.add(digestOf("service", &struct {
		Name           string
		Deleted, Empty bool
	}{s.Name, s.Deleted, s.Empty}))
}

// digest of an endpoint. A field that is added later comes last, and changes
// no digest while it is zero.
func (e *Endpoint) digest() Digest {
	var room [256]byte
	b := append(room[:0], "endpoint"...)
	for _, s := range [...]string{e.ID, e.Revision, e.Address, e.Zone, string(e.Verdict)} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = binary.AppendVarint(b, int64(e.Weight))
	if e.HealthUnknown {
		b = append(b, 'h')
	}
	return digestFrom(sha256.Sum256(b))
}

func digestFrom(sum [32]byte) Digest {
	return Digest{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

func digestOf(kind string, x any) Digest {
	b, err := json.Marshal(x)
	if err != nil { // the parts of a view hold nothing that JSON cannot say
		panic("view: cannot encode a " + kind + ": " + err.Error())
	}
	return digestFrom(sha256.Sum256(append([]byte(kind), b...)))
}
