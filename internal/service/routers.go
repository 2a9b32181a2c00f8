package service

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
)

// roleGateway is the role of who routes by the route table.
const roleGateway = "gateway"

// Routers are all who may route the service's requests: the known gateways by
// name, then callers as h has them.
func (s *Snapshot) Routers(w *World, h Holding) []routing.Router {
	views := map[string]ViewHolder{} // :: gateway → the view that it chooses by
	for _, r := range h.Rows {
		if _, known := views[r.Name]; r.Role == roleGateway && (r.Connected || !known) { // one that went over to a relay left here
			views[r.Name] = r
		}
	}
	out := make([]routing.Router, 0, len(w.Gateways)+len(h.Rows))
	for _, g := range w.Gateways {
		r := s.gateway(g, w)
		r.View, r.Away = views[g.Name].Version, views[g.Name].Away
		out = append(out, r)
	}
	for _, r := range h.Rows {
		if r.Role == roleGateway {
			continue
		}
		x := routing.Router{Role: r.Role, Name: r.Name, Via: r.Via, View: r.Version, Connected: r.Connected, Silent: r.Silent, Away: r.Away}
		x.Stands, x.Until = r.Stands()
		out = append(out, x)
	}
	return out
}

// Standing is the table's part of the service: Routers, with how many they are.
func (s *Snapshot) Standing(w *World, h Holding) routing.Standing {
	return routing.Standing{
		Service: s.Service, Published: h.Published, Routers: s.Routers(w, h), Callers: h.Callers, More: h.More, Unheard: h.Unheard,
		Ending: s.Desired.Value.Deleted,
	}
}

func (s *Snapshot) gateway(g KnownGateway, w *World) routing.Router {
	r := routing.Router{Role: roleGateway, Name: g.Name, Stands: g.stands(s)}
	r.Serves, r.Keeps = g.holds()
	if g.State != nil {
		r.Connected, r.Silent = g.State.Connected, g.State.Silent
	}
	floor, unknown := g.floorOf(s.Service, w)
	if unknown {
		r.MayRoute, r.Until = []string{"anything"}, "it serves and keeps a table of this store, or is retired"
		return r
	}
	for _, p := range s.heldFrom(floor) {
		for _, split := range p.Splits {
			for _, rev := range append([]string{split.Revision}, split.Allowed...) {
				if !split.Hold && !Names(s.Routes.Value.Plan, rev) && !slices.Contains(r.MayRoute, rev) {
					r.MayRoute = append(r.MayRoute, rev)
				}
			}
		}
	}
	if len(r.MayRoute) > 0 {
		slices.Sort(r.MayRoute)
		r.Until = fmt.Sprintf("it acknowledges table %d or later, served and on its disk, or is retired", s.Routes.Version)
	}
	return r
}

// stands says how a gateway stands to what is published of a service.
func (g KnownGateway) stands(s *Snapshot) string {
	switch serves, _ := g.holds(); {
	case g.State == nil:
		return "not heard since control began to lead"
	case g.drifted():
		return "serves otherwise than its table's number says"
	case g.State.Refused[s.Service] != "":
		return "picks otherwise: " + g.State.Refused[s.Service]
	case g.Behind():
		return "behind"
	case serves.Counter < s.Routes.Version:
		return "has not acknowledged the routes yet"
	}
	return "current"
}

// Stands says how a caller stands to the newest view, and until when it counts as
// one who may pick by an earlier one; empty: it does not, or not any more.
func (h ViewHolder) Stands() (words, until string) {
	if h.Refused > 0 {
		return h.standsRefused(), ""
	}
	switch left := (routing.Grace - h.Silent).Round(time.Second); {
	case !h.Connected && left > 0:
		return "left", fmt.Sprintf("it is back, or %s have passed", left)
	case !h.Connected:
		return "left, and nobody waits for it", ""
	}
	words = "behind"
	switch {
	case h.Objection != "":
		words = "picks otherwise: " + h.Objection
	case h.Current:
		return "current", ""
	case h.Version.Zero():
		words = "has acknowledged no view yet"
	}
	left := (routing.Grace - h.Behind).Round(time.Second)
	switch {
	case h.Current:
		return words, ""
	case left <= 0:
		return words + ", and nobody waits for it any more", ""
	}
	return words, fmt.Sprintf("it acknowledges the newest view, or %s have passed", left)
}

// standsRefused: nobody waits for it, since it will acknowledge nothing more.
func (h ViewHolder) standsRefused() string {
	age := ""
	if h.Behind > 0 {
		age = fmt.Sprintf(", %s out of date", h.Behind.Round(time.Second))
	}
	words := fmt.Sprintf("refused by policy for %s, may still pick by view %s%s", h.Refused.Round(time.Second), h.Version, age)
	if !h.Connected {
		words += fmt.Sprintf(" (left %s ago)", h.Silent.Round(time.Second))
	}
	return words + "; no stop waits for it"
}
