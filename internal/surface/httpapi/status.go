package httpapi

import (
	"cmp"
	"context"
	"slices"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// GetStatus says what is wanted, true, published and running.
func (a *API) GetStatus(ctx context.Context, req *connect.Request[fairleadv1.GetStatusRequest]) (*connect.Response[fairleadv1.GetStatusResponse], error) {
	name := req.Msg.GetService()
	d, _, err := a.desired(ctx, name)
	if err != nil {
		return nil, err
	}
	catalog, _, _, err := get[service.Catalog](ctx, a.Store, service.KindCatalog, name)
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.GetStatusResponse{
		Service:            name,
		Generation:         d.Generation,
		ObservedGeneration: catalog.ObservedGeneration,
		Url:                a.url(service.LocalHost(name)),
		Deleting:           d.Deleted,
		NeedsOperator:      catalog.NeedsOperator,
		HostNames:          d.HostsOf(),
		Alarms:             a.alarms(name, catalog.NeedsOperator),
		Instances:          a.instances(name),
		Paused:             d.Paused,
		WantedTraffic:      targetsTo(d.Traffic),
		Pinned:             d.Pinned(),
		Warm:               catalog.Warm,
		WarmUntil:          timestamp(catalog.WarmUntil),
	}
	for _, p := range catalog.Traffic {
		out.Traffic = append(out.Traffic, &fairleadv1.TrafficStatus{Revision: p.Revision, Percent: int32(p.Percent), Tag: p.Tag})
	}
	if out.Routes, err = a.routes(ctx, name); err != nil {
		return nil, err
	}
	revisions, err := a.revisions(ctx, name)
	if err != nil {
		return nil, err
	}
	out.Revisions = revisionsTo(revisions)
	sagas, err := a.sagas(ctx, name)
	if err != nil {
		return nil, err
	}
	out.Deployment = deploymentTo(sagas)
	return connect.NewResponse(out), nil
}

// alarms are the installation's and the service's own, but for what is said
// beside them.
func (a *API) alarms(name, said string) []string {
	own := slices.DeleteFunc(slices.Clone(a.Leader.Alarms(name)), func(text string) bool { return text == said })
	return append(a.Leader.Alarms(""), own...)
}

// routes compares what was published with what gateways say that they serve.
func (a *API) routes(ctx context.Context, name string) (*fairleadv1.RoutesStatus, error) {
	doc, version, found, err := get[service.Routes](ctx, a.Store, service.KindRoutes, name)
	if err != nil {
		return nil, err
	}
	known, _, err := list[service.Gateway](ctx, a.Store, service.KindGateway, nil)
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.RoutesStatus{Gateways: int32(len(known))}
	if !found {
		return out, nil
	}
	v := view.Version{Incarnation: a.Store.Incarnation(), Epoch: a.Leader.Epoch().Number, Counter: version}
	out.Version = v.String()
	for _, s := range doc.Plan.Splits {
		out.Traffic = append(out.Traffic, &fairleadv1.RouteTraffic{Revision: s.Revision, Percent: int32(s.Percent), RequestGroup: s.Group, Tag: s.Tag})
	}
	served := map[string]view.Version{} // :: gateway name → what it serves, as last heard
	for _, g := range known {
		served[g.Name] = g.Serves
	}
	for _, s := range a.Gateways.States() {
		served[s.Name] = s.Serves
	}
	for _, g := range known {
		// Within one incarnation the store's sequence alone says what is later.
		if s := served[g.Name]; s.Incarnation == v.Incarnation && s.Counter >= version {
			out.Acknowledged++
		} else {
			out.Behind = append(out.Behind, g.Name)
		}
	}
	return out, nil
}

// instances of a service on every host, ordered by slot.
func (a *API) instances(name string) []*fairleadv1.InstanceStatus {
	var out []*fairleadv1.InstanceStatus
	verdicts := a.eligibility(name)
	for _, h := range a.Hosts.States() {
		for _, i := range h.Instances {
			if i.Service == name {
				out = append(out, instanceTo(h, i, verdicts[i.ID]))
			}
		}
	}
	slices.SortFunc(out, func(x, y *fairleadv1.InstanceStatus) int {
		return cmp.Or(cmp.Compare(x.Revision, y.Revision), cmp.Compare(x.Slot, y.Slot), cmp.Compare(x.Id, y.Id))
	})
	return out
}

func instanceTo(h service.HostState, i service.Instance, verdict string) *fairleadv1.InstanceStatus {
	return &fairleadv1.InstanceStatus{
		Id: i.ID, Slot: i.Slot, Revision: i.Revision, State: string(i.State),
		Pid: int32(i.Pid), Restarts: int32(i.Restarts),
		Host: cmp.Or(i.Host, h.Name), Zone: cmp.Or(i.Zone, h.Zone),
		Eligibility: cmp.Or(verdict, "unknown"),
		Address:     i.Address, Detail: i.Detail, ExitStatus: i.ExitStatus,
	}
}

func revisionsTo(all []service.Revision) []*fairleadv1.RevisionStatus {
	out := make([]*fairleadv1.RevisionStatus, 0, len(all))
	for _, r := range all {
		out = append(out, &fairleadv1.RevisionStatus{
			Name: r.Name, State: string(r.State), Digest: r.Digest, CreatedAt: timestamp(r.CreatedAt), Reason: r.Reason,
		})
	}
	return out
}

// sagas of a service but for collections, oldest first.
func (a *API) sagas(ctx context.Context, name string) ([]saga.Record, error) {
	all, _, err := list[saga.Record](ctx, a.Store, service.KindSaga, nil)
	all = slices.DeleteFunc(all, func(r saga.Record) bool { return r.Owner != name || r.Kind == kindCollect })
	slices.SortFunc(all, func(x, y saga.Record) int {
		return cmp.Or(cmp.Compare(x.Generation, y.Generation), x.Started.Compare(y.Started), cmp.Compare(x.ID, y.ID))
	})
	return all, err
}

const kindCollect = "collect"

// deploymentTo tells of the saga that is open, else of the last one.
func deploymentTo(sagas []saga.Record) *fairleadv1.DeploymentStatus {
	if len(sagas) == 0 {
		return nil
	}
	r := sagas[len(sagas)-1]
	for _, s := range sagas {
		if s.Open() {
			r = s
		}
	}
	return &fairleadv1.DeploymentStatus{
		Revision: r.Subject, Attempt: r.Attempt, State: deploymentState(r.State), Step: stepOf(r),
		Error: r.Error, RetryAt: timestamp(r.RetryAt), Generation: r.Generation, Kind: r.Kind,
		Held: r.Held,
	}
}

func deploymentState(s saga.State) string {
	switch s {
	case saga.Compensating:
		return string(saga.Running)
	case saga.Parked:
		return string(saga.Failed)
	}
	return string(s)
}

// stepOf is the step that it is at, or at which its last attempt failed.
func stepOf(r saga.Record) string {
	if r.FailedStep != "" && r.State != saga.Running && r.State != saga.Done {
		return r.FailedStep
	}
	return r.At()
}
