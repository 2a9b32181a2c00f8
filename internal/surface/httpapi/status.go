package httpapi

import (
	"cmp"
	"context"
	"slices"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
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
		Paused:             d.Paused,
		WantedTraffic:      targetsTo(d.Traffic),
		Pinned:             d.Pinned(),
		Warm:               catalog.Warm,
		WarmUntil:          timestamp(catalog.WarmUntil),
	}
	for _, p := range catalog.Traffic {
		out.Traffic = append(out.Traffic, &fairleadv1.TrafficStatus{Revision: p.Revision, Percent: int32(p.Percent), Tag: p.Tag})
	}
	members, _, err := list[service.Gateway](ctx, a.Store, service.KindGateway, nil)
	if err != nil {
		return nil, err
	}
	hosts, _, err := list[service.Host](ctx, a.Store, service.KindHost, nil)
	if err != nil {
		return nil, err
	}
	w := a.world(hosts, members, 0)
	if out.Routes, err = a.routes(ctx, name, w); err != nil {
		return nil, err
	}
	revisions, err := a.revisions(ctx, name)
	if err != nil {
		return nil, err
	}
	out.Revisions = revisionsTo(revisions)
	out.Notes = gathered(revisions, map[string]service.Catalog{name: catalog}, w)
	out.Instances = a.instances(name, revisions, w)
	out.Missing = missingTo(service.MissingCredits(w.Of[name], revisions, w))
	out.View, out.ViewHolders = a.viewHolders(name)
	out.Stops, out.Refused = a.stops(name), a.refused(name)
	sagas, err := a.sagas(ctx, name)
	if err != nil {
		return nil, err
	}
	for i := range sagas {
		sagas[i] = a.dueAt(sagas[i])
	}
	out.Deployment = deploymentTo(sagas)
	return connect.NewResponse(out), nil
}

func missingTo(all []service.Missing) (out []*fairleadv1.MissingCredits) {
	for _, m := range all {
		out = append(out, &fairleadv1.MissingCredits{Gateway: m.Gateway, Credits: int32(m.Credits), Of: int32(m.Of), Heard: m.Heard})
	}
	return out
}

// alarms are the installation's and the service's own, but for what is said
// beside them.
func (a *API) alarms(name, said string) []string {
	own := slices.DeleteFunc(slices.Clone(a.Leader.Alarms(name)), func(text string) bool { return text == said })
	return append(a.Leader.Alarms(""), own...)
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

// dueAt is the record with the instant at which the leader tries it again: what
// was recorded is what an earlier one meant to.
func (a *API) dueAt(r saga.Record) saga.Record {
	if at := a.Leader.RetryAt(r.ID); r.Open() && !r.RetryAt.IsZero() && !at.IsZero() {
		r.RetryAt = at
	}
	return r
}

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
