package service

import (
	"cmp"
	"slices"
)

// Missing are credits of live instances that a gateway has which their hosts do
// not hear: nobody else can use them until it is heard, starts anew, is seen to
// have ended, or is retired.
type Missing struct {
	Gateway string
	// Credits that it has, of all that the live instances have.
	Credits, Of int
	// Heard by control, though not by those hosts.
	Heard bool
}

// MissingCredits of the instances, by gateway, in order.
func MissingCredits(instances []Instance, revisions []Revision, w *World) []Missing {
	by, of := map[string]int{}, 0 // :: gateway name → credits
	for _, i := range instances {
		if i.State != InstanceLive || !w.Hosts[i.Host].Heard() {
			continue
		}
		at := slices.IndexFunc(revisions, func(r Revision) bool { return r.Owns(i) })
		if at < 0 {
			continue
		}
		of += revisions[at].Template.AtOnce()
		for gateway, n := range i.Away {
			by[gateway] += n
		}
	}
	var out []Missing
	for gateway, n := range by {
		heard := slices.ContainsFunc(w.Gateways, func(g KnownGateway) bool { return g.Name == gateway && g.Heard() })
		out = append(out, Missing{Gateway: gateway, Credits: n, Of: of, Heard: heard})
	}
	slices.SortFunc(out, func(a, b Missing) int { return cmp.Compare(a.Gateway, b.Gateway) })
	return out
}
