package view

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
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
	// Endpoints by ID, and Marks by group and zone, each sorted.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Marks     []ZoneMark `json:"marks,omitempty"`
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
func (s *Service) Digest() (d Digest) {
	for i := range s.Endpoints {
		d = d.add(digestOf("endpoint", &s.Endpoints[i]))
	}
	for i := range s.Marks {
		d = d.add(digestOf("mark", &s.Marks[i]))
	}
	return d.add(digestOf("service", &struct {
		Name           string
		Deleted, Empty bool
	}{s.Name, s.Deleted, s.Empty}))
}

func digestOf(kind string, x any) Digest {
	b, err := json.Marshal(x)
	if err != nil { // the parts of a view hold nothing that JSON cannot say
		panic("view: cannot encode a " + kind + ": " + err.Error())
	}
	sum := sha256.Sum256(append([]byte(kind), b...))
	return Digest{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}
