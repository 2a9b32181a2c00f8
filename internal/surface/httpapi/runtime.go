package httpapi

import (
	"context"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Runtime tells what the authorities on instances say beside the registry;
// *discovery.Plane is one.
type Runtime interface {
	Runtime() (sources []discovery.SourceState, differences []discovery.Difference, observing bool)
	// Try folds a proposed contract over what is retained of a service's evidence.
	Try(ctx context.Context, service string, c eligibility.Contract, since time.Duration) (discovery.Trial, error)
}

// flapsFor is how far back flaps are looked for, at least.
const flapsFor = 24 * time.Hour

// DiffRuntime compares authorities and registry.
func (a *API) DiffRuntime(context.Context, *connect.Request[fairleadv1.DiffRuntimeRequest]) (*connect.Response[fairleadv1.DiffRuntimeResponse], error) {
	out := &fairleadv1.DiffRuntimeResponse{}
	if a.Runtime == nil {
		return connect.NewResponse(out), nil
	}
	sources, differences, observing := a.Runtime.Runtime()
	out.Observing = observing
	for _, s := range sources {
		m := &fairleadv1.RuntimeSource{
			Source: string(s.Source), Name: s.Name, Listed: int32(s.Listed), Registered: int32(s.Registered), Answers: s.Answers(),
		}
		if s.Heard {
			m.Lag = durationpb.New(s.Lag)
		}
		out.Sources = append(out.Sources, m)
	}
	for _, d := range differences {
		out.Differences = append(out.Differences, &fairleadv1.RuntimeDifference{
			Source: string(d.Source), Name: d.Name, Service: d.Service, Instance: d.Instance, What: d.What, Authority: d.Authority, Registry: d.Registry,
		})
	}
	return connect.NewResponse(out), nil
}

// ListFlaps says who was quarantined and what earned it.
func (a *API) ListFlaps(ctx context.Context, req *connect.Request[fairleadv1.ListFlapsRequest]) (*connect.Response[fairleadv1.ListFlapsResponse], error) {
	name := req.Msg.GetService()
	day := a.Now().Add(-flapsFor)
	all, _, err := a.transitions(ctx, name, func(all []discovery.Record) bool {
		return len(all) == 0 || slices.MinFunc(all, func(x, y discovery.Record) int { return x.At.Compare(y.At) }).At.After(day)
	})
	if err != nil {
		return nil, err
	}
	standings, observing := a.standings(name)
	out := &fairleadv1.ListFlapsResponse{Service: name, Observing: observing}
	until := map[string]int64{} // :: instance → tick at which its quarantine ends
	for _, s := range standings {
		out.Changes += int32(s.Flaps)
		until[s.ID] = s.Until
	}
	for _, q := range discovery.Quarantines(all) {
		m := &fairleadv1.Quarantine{
			Instance: q.Instance, At: timestamp(q.At), Length: durationpb.New(time.Duration(q.Seconds) * time.Second),
			InForce: until[q.Instance] != 0 && until[q.Instance] == q.State.Quarantine.Until,
		}
		for _, r := range q.EarnedBy {
			m.EarnedBy = append(m.EarnedBy, transitionTo(r))
		}
		out.Quarantines = append(out.Quarantines, m)
	}
	return connect.NewResponse(out), nil
}

// transitions of a service, in their order: those of the store, and sealed ones
// while more says so; of a service that is not known that is said. What is
// missing says why not all of them could be read.
func (a *API) transitions(ctx context.Context, name string, more func([]discovery.Record) bool) (all []discovery.Record, missing string, err error) {
	all, _, err = list[discovery.Record](ctx, a.Store, service.KindTransition, func(n string) bool { return strings.HasPrefix(n, name+".") })
	if err != nil {
		return nil, "", err
	}
	all, err = discovery.NewArchive(a.Bucket).Transitions(ctx, name, all, more)
	if err != nil {
		missing = err.Error()
	}
	if len(all) == 0 {
		if err := a.known(ctx, name); err != nil {
			return nil, "", err
		}
	}
	return all, missing, nil
}

func transitionTo(r discovery.Record) *fairleadv1.Transition {
	return &fairleadv1.Transition{
		At: timestamp(r.At), Instance: r.Instance, From: r.From.String(), To: r.To.String(), Rule: r.Rule.String(),
		Weight: float64(r.Weight) / 1000, Why: r.Why, Evidence: r.Classes, Quarantined: r.Quarantined, Late: r.Late,
	}
}
