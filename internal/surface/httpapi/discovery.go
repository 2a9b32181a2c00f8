package httpapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// Discovery tells what is believed of instances; *discovery.Plane is one.
type Discovery interface {
	// Standings are a service's instances; false says that nothing is known yet.
	Standings(service string) ([]discovery.Standing, bool)
	// Probers are those who look at instances, and how many instances nobody
	// looks at; false says that nothing is known yet.
	Probers() (all []discovery.ProberState, unlooked int, observing bool)
	// Guards of a service that have tripped.
	Guards(service string) []discovery.GuardState
	// Decide takes a person's decision about a guard that waits for one, of one
	// group and zone or of all, and says what was decided.
	Decide(ctx context.Context, service string, d discovery.GuardDecision) ([]discovery.GuardState, error)
}

// Views tells who picks by which view.
type Views interface {
	// Published is the version of a service's newest view; zero is none.
	Published(service string) view.Version
	// Newest is a service's newest view, and since when it is; nil is none.
	Newest(service string) (v *view.Service, age time.Duration)
	Holders(service string) []service.ViewHolder
	Subscribers() []service.Subscriber
	// MayPick are the callers who may still pick an instance.
	MayPick(service string, instances []string) routing.Pickers
	// Holding says who holds a service's view, relays' subscribers included.
	Holding(ctx context.Context, service string, most int) service.Holding
	// Refused are how many callers its policy refuses that may still pick by the view
	// that they held before.
	Refused(service string) int
	// Propagation says how soon its versions were acknowledged; false: none are
	// published here.
	Propagation(service string) (budget.Report, bool)
	// Sheds says for how long what takes no traffic from trouble waits, where
	// that is longer than it should, and why.
	Sheds() (window time.Duration, why string)
}

// viewHolders of a service, and the version that is published.
func (a *API) viewHolders(name string) (published string, out []*fairleadv1.ViewHolder) {
	if a.Views == nil {
		return "", nil
	}
	for _, h := range a.Views.Holders(name) {
		out = append(out, &fairleadv1.ViewHolder{
			Subscriber: h.Role + "/" + h.Name, Version: h.Version.String(), Current: h.Current, Connected: h.Connected, Objection: h.Objection,
			Refused: span(h.Refused),
		})
	}
	return a.Views.Published(name).String(), out
}

// subscribers of a role: :: name → what it holds of views.
func (a *API) subscribers(role identity.Role) map[string]service.Subscriber {
	out := map[string]service.Subscriber{}
	if a.Views == nil {
		return out
	}
	for _, s := range a.Views.Subscribers() {
		if s.Role == string(role) {
			out[s.Name] = s
		}
	}
	return out
}

// ListInstances says what is believed of each instance.
func (a *API) ListInstances(ctx context.Context, req *connect.Request[fairleadv1.ListInstancesRequest]) (*connect.Response[fairleadv1.ListInstancesResponse], error) {
	name := req.Msg.GetService()
	if err := a.known(ctx, name); err != nil {
		return nil, err
	}
	all, observing := a.standings(name)
	out := &fairleadv1.ListInstancesResponse{Service: name, Observing: observing}
	for _, s := range all {
		out.Instances = append(out.Instances, standingTo(s))
	}
	out.Guards = a.guards(name)
	return connect.NewResponse(out), nil
}

func (a *API) standings(name string) ([]discovery.Standing, bool) {
	if a.Discovery == nil {
		return nil, false
	}
	all, observing := a.Discovery.Standings(name)
	slices.SortFunc(all, func(x, y discovery.Standing) int {
		return cmp.Or(cmp.Compare(x.Revision, y.Revision), cmp.Compare(x.Slot, y.Slot), cmp.Compare(x.ID, y.ID))
	})
	return all, observing
}

// eligibility of each instance of a service, as status shows it: :: instance → verdict.
func (a *API) eligibility(name string) map[string]string {
	out := map[string]string{}
	all, _ := a.standings(name)
	for _, s := range all {
		out[s.ID] = string(s.Verdict)
	}
	return out
}

func standingTo(s discovery.Standing) *fairleadv1.InstanceStanding {
	return &fairleadv1.InstanceStanding{
		Id: s.ID, Revision: s.Revision, Slot: s.Slot, Host: s.Host, Zone: s.Zone, Address: s.Address,
		Verdict: string(s.Verdict), Rule: s.Rule.String(), Weight: float64(s.Served) / view.FullWeight,
		Since: timestamp(s.At), Terminating: s.Terminating, Changes: int32(s.Flaps),
	}
}

// ExplainInstance says why an instance's verdict is what it is.
func (a *API) ExplainInstance(ctx context.Context, req *connect.Request[fairleadv1.ExplainInstanceRequest]) (*connect.Response[fairleadv1.ExplainInstanceResponse], error) {
	name, id := req.Msg.GetService(), req.Msg.GetInstance()
	if err := a.known(ctx, name); err != nil {
		return nil, err
	}
	all, observing := a.standings(name)
	if !observing {
		return nil, fault.New(fault.Unavailable, "ask again in a few seconds", "nothing is known of instances yet: this control has only just begun to observe")
	}
	i := slices.IndexFunc(all, func(s discovery.Standing) bool { return s.ID == id })
	if i < 0 {
		return nil, fault.New(fault.NotFound, "`fairlead instances "+name+"` lists them; `fairlead history "+name+" --instance "+id+"` tells of one that is gone",
			"service %s has no instance %q", name, id)
	}
	s := all[i]
	out := &fairleadv1.ExplainInstanceResponse{
		Service: name, Instance: standingTo(s), Why: s.Account.Why, Evidence: slices.Concat(s.Account.Classes, s.Said), Next: s.Account.Next,
	}
	out.View, out.ViewHolders = a.viewHolders(name)
	out.Guards = a.guards(name)
	return connect.NewResponse(out), nil
}

// ListTransitions is the history of verdicts and of what governs them, oldest
// first.
func (a *API) ListTransitions(ctx context.Context, req *connect.Request[fairleadv1.ListTransitionsRequest]) (*connect.Response[fairleadv1.ListTransitionsResponse], error) {
	name, instance := req.Msg.GetService(), req.Msg.GetInstance()
	limit := cmp.Or(max(int(req.Msg.GetLimit()), 0), 100)
	other := func(r discovery.Record) bool { return instance != "" && r.Instance != instance }
	all, missing, err := a.transitions(ctx, name, func(all []discovery.Record) bool {
		return len(slices.DeleteFunc(slices.Clone(all), other)) < limit
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, other)
	out := &fairleadv1.ListTransitionsResponse{Missing: missing}
	for _, r := range all[max(0, len(all)-limit):] {
		out.Transitions = append(out.Transitions, transitionTo(r))
	}
	if instance == "" {
		if out.Policies, err = a.policies(ctx, name, limit); err != nil {
			return nil, err
		}
	}
	return connect.NewResponse(out), nil
}
