package httpapi

import (
	"cmp"
	"context"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/drill"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

// Drills exercises what is claimed of the running system.
type Drills interface {
	// Prepare says how many are connected, and who would not route as they should
	// without control; an error, why none may begin.
	Prepare(length time.Duration) (parties int, doubts []string, err error)
	// Start keeps control away for so long.
	Start(ctx context.Context, length time.Duration) error
	// Last drill of this control, when it began and how long it has taken; nil is none.
	Last() (last *drill.Drill, at time.Time, elapsed time.Duration)
	// End the one that keeps control away.
	End() error
}

func lengthOf(d *durationpb.Duration) time.Duration {
	if d == nil {
		return drill.Default
	}
	return d.AsDuration()
}

// PrepareDrill says what a drill would begin with.
func (a *API) PrepareDrill(_ context.Context, req *connect.Request[fairleadv1.PrepareDrillRequest]) (*connect.Response[fairleadv1.PrepareDrillResponse], error) {
	if a.Drills == nil {
		return nil, fault.New(fault.Unavailable, "", "no drill can be made here")
	}
	length := lengthOf(req.Msg.GetLength())
	parties, doubts, err := a.Drills.Prepare(length)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.PrepareDrillResponse{Length: durationpb.New(length), Parties: int32(parties), Doubts: doubts}), nil
}

// StartDrill keeps control away for a while.
func (a *API) StartDrill(ctx context.Context, req *connect.Request[fairleadv1.StartDrillRequest]) (*connect.Response[fairleadv1.StartDrillResponse], error) {
	if a.Drills == nil {
		return nil, fault.New(fault.Unavailable, "", "no drill can be made here")
	}
	if err := a.Drills.Start(ctx, lengthOf(req.Msg.GetLength())); err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.StartDrillResponse{Drill: a.drill()}), nil
}

// GetDrill says how the last one stands.
func (a *API) GetDrill(context.Context, *connect.Request[fairleadv1.GetDrillRequest]) (*connect.Response[fairleadv1.GetDrillResponse], error) {
	d := a.drill()
	if d == nil {
		return nil, fault.New(fault.NotFound, "start one by: fairlead drill control-plane", "this control has made no drill since it was started")
	}
	return connect.NewResponse(&fairleadv1.GetDrillResponse{Drill: d}), nil
}

// EndDrill has control answer again.
func (a *API) EndDrill(context.Context, *connect.Request[fairleadv1.EndDrillRequest]) (*connect.Response[fairleadv1.EndDrillResponse], error) {
	if a.Drills == nil {
		return nil, fault.New(fault.NotFound, "", "no drill keeps control away")
	}
	if err := a.Drills.End(); err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.EndDrillResponse{}), nil
}

// mostParties are named in an answer.
const mostParties = 1000

func (a *API) drill() *fairleadv1.Drill {
	if a.Drills == nil {
		return nil
	}
	d, at, elapsed := a.Drills.Last()
	if d == nil {
		return nil
	}
	out := &fairleadv1.Drill{
		Id: d.ID, State: string(d.State), At: timestamp(at), Length: durationpb.New(d.Length), Elapsed: durationpb.New(elapsed), Aborted: d.Aborted, Parties: int32(len(d.Parties)), Doubts: d.Doubts,
	}
	for _, p := range d.Parties {
		if p.Back {
			out.Back++
		}
	}
	for _, p := range d.Parties[:min(len(d.Parties), mostParties)] {
		x := &fairleadv1.DrillParty{Role: p.Role, Name: p.Name, Back: p.Back, StartedAnew: p.Anew, Elsewhere: p.Elsewhere}
		if p.Back {
			x.BackAfter = durationpb.New(p.BackAfter)
		}
		if p.Said != nil {
			x.Away, x.Calls, x.Failed, x.Unroutable = durationpb.New(p.Said.Away), p.Said.Calls, p.Said.Failed, p.Said.Unroutable
		}
		out.Named = append(out.Named, x)
	}
	slices.SortStableFunc(d.Routers, func(x, y drill.Router) int { return cmp.Compare(len(y.Against), len(x.Against)) })
	for _, r := range d.Routers[:min(len(d.Routers), mostParties)] {
		out.Routers = append(out.Routers, &fairleadv1.DrillRouter{
			Role: r.Role, Name: r.Name, Before: int32(r.Before), After: int32(r.After), Services: int32(r.Services), Current: int32(r.Current),
			Serves: r.Serves.String(), Silent: durationpb.New(r.Silent), Against: r.Against,
		})
	}
	if d.State == drill.Over {
		v := d.Verdict()
		out.Verdict = &fairleadv1.DrillVerdict{
			Held: v.Held, Against: v.Against, Notes: v.Notes, Calls: v.Calls, Failed: v.Failed, Unroutable: v.Unroutable,
			Oldest: durationpb.New(v.Oldest), Returned: durationpb.New(v.Returned),
			Asked: int32(v.Asked), Silent: durationpb.New(v.Silent),
		}
	}
	return out
}
