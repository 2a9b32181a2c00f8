package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// stateUnheard is shown of an instance whose host is not heard.
const stateUnheard = "unheard"

// routes compares what was published with what gateways say that they serve.
// What one of which nothing is heard acknowledged once counts for nothing.
func (a *API) routes(ctx context.Context, name string, w *service.World) (*fairleadv1.RoutesStatus, error) {
	doc, version, found, err := get[service.Routes](ctx, a.Store, service.KindRoutes, name)
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.RoutesStatus{Gateways: int32(len(w.Gateways))}
	for _, g := range w.Gateways {
		if !g.Heard() {
			out.Unheard = append(out.Unheard, unheardTo(g))
		}
		if g.State != nil && g.Heard() {
			out.Waiting += int32(g.State.Waiting[name])
		}
	}
	if !found {
		return out, nil
	}
	v := view.Version{Incarnation: w.Incarnation, Epoch: a.Leader.Epoch().Number, Counter: version}
	out.Version = v.String()
	for _, s := range doc.Plan.Splits {
		out.Traffic = append(out.Traffic, &fairleadv1.RouteTraffic{Revision: s.Revision, Percent: int32(s.Percent), RequestGroup: s.Group, Tag: s.Tag})
	}
	if out.Held = doc.Held(); out.Held {
		out.HeldSince = timestamp(doc.At)
	}
	for _, g := range w.Gateways {
		serves := g.Serves
		if g.State != nil {
			serves = g.State.Serves
		}
		// Within one incarnation the store's sequence alone says what is later.
		has := serves.Incarnation == v.Incarnation && serves.Counter >= version
		switch {
		case !has:
			out.Behind = append(out.Behind, g.Name)
		case g.Heard():
			out.Acknowledged++
		}
	}
	return out, nil
}

func unheardTo(g service.KnownGateway) *fairleadv1.UnheardGateway {
	out := &fairleadv1.UnheardGateway{Name: g.Name}
	if g.Silent < math.MaxInt64 {
		out.Silent = durationpb.New(g.Silent)
	}
	return out
}

// instances of a service on every host, ordered by slot.
func (a *API) instances(name string, revisions []service.Revision, w *service.World) []*fairleadv1.InstanceStatus {
	var out []*fairleadv1.InstanceStatus
	verdicts := a.eligibility(name)
	for _, i := range w.Of[name] {
		s := instanceTo(i, verdicts[i.ID], w)
		s.SlotState = slotState(i, revisions)
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y *fairleadv1.InstanceStatus) int {
		return cmp.Or(cmp.Compare(x.Revision, y.Revision), cmp.Compare(x.Slot, y.Slot), cmp.Compare(x.Id, y.Id))
	})
	return out
}

func instanceTo(i service.Instance, verdict string, w *service.World) *fairleadv1.InstanceStatus {
	out := &fairleadv1.InstanceStatus{
		Id: i.ID, Slot: i.Slot, Revision: i.Revision, State: string(i.State),
		Pid: int32(i.Pid), Restarts: int32(i.Restarts), Host: i.Host, Zone: i.Zone,
		Eligibility: cmp.Or(verdict, "unknown"),
		Address:     i.Address, Detail: i.Detail, ExitStatus: i.ExitStatus,
	}
	h := w.Hosts[i.Host]
	if h.Heard() || i.State == service.InstanceExited {
		return out
	}
	why := fmt.Sprintf("%s %s ago, when host %s was last heard", i.State, h.Silent.Round(time.Second), i.Host)
	if gateway := w.CutOff(i.Host); gateway != "" {
		why += ", which polls gateway " + gateway
	} else {
		out.State = stateUnheard
	}
	if out.Detail != "" {
		why += "; " + out.Detail
	}
	out.Detail = why
	return out
}

// slotState tells what is to go from what is asked for.
func slotState(i service.Instance, revisions []service.Revision) string {
	is := func(s service.Slot) bool { return s.ID == i.Slot && s.Host == i.Host }
	for _, r := range revisions {
		switch {
		case !r.Owns(i):
		case slices.ContainsFunc(r.Slots, is):
			return ""
		case slices.ContainsFunc(r.Leaving, is):
			return "leaving"
		}
	}
	if i.State == service.InstanceExited {
		return ""
	}
	return "stray"
}
