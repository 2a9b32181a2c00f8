package httpapi

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// GetService returns the desired document, a tombstone too.
func (a *API) GetService(ctx context.Context, req *connect.Request[fairleadv1.GetServiceRequest]) (*connect.Response[fairleadv1.GetServiceResponse], error) {
	d, _, err := a.desired(ctx, req.Msg.GetService())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.GetServiceResponse{Service: serviceTo(d)}), nil
}

// ListServices says in a line each how the services do.
func (a *API) ListServices(ctx context.Context, _ *connect.Request[fairleadv1.ListServicesRequest]) (*connect.Response[fairleadv1.ListServicesResponse], error) {
	desired, _, err := list[service.Desired](ctx, a.Store, service.KindDesired, nil)
	if err != nil {
		return nil, err
	}
	sum, err := a.summarizer(ctx)
	if err != nil {
		return nil, err
	}
	out := &fairleadv1.ListServicesResponse{}
	for _, d := range desired {
		s := sum.of(d)
		s.Url = a.url(service.LocalHost(d.Service))
		out.Services = append(out.Services, s)
	}
	others, err := a.notDeployed(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range others {
		if !slices.ContainsFunc(out.Services, func(d *fairleadv1.ServiceSummary) bool { return d.GetService() == s.GetService() }) {
			out.Services = append(out.Services, s)
		}
	}
	slices.SortStableFunc(out.Services, func(x, y *fairleadv1.ServiceSummary) int { return cmp.Compare(x.GetService(), y.GetService()) })
	return connect.NewResponse(out), nil
}

// notDeployed are the services whose instances are registered by lease, or
// declared as a third party's.
func (a *API) notDeployed(ctx context.Context) (out []*fairleadv1.ServiceSummary, err error) {
	declared, _, err := list[discovery.External](ctx, a.Store, service.KindExternal, nil)
	if err != nil {
		return nil, err
	}
	rows, _, err := list[registry.Instance](ctx, a.Store, service.KindInstance, nil)
	if err != nil {
		return nil, err
	}
	leases := map[string]int{} // :: service → leases
	for _, x := range rows {
		if x.Source == registry.Lease && !x.Gone {
			leases[x.Service]++
		}
	}
	for _, d := range declared {
		delete(leases, d.Service)
		out = append(out, a.undeployed(d.Service, registry.External, len(d.Endpoints)))
	}
	for name, n := range leases {
		out = append(out, a.undeployed(name, registry.Lease, n))
	}
	return out, nil
}

func (a *API) undeployed(name string, source registry.Source, instances int) *fairleadv1.ServiceSummary {
	out := &fairleadv1.ServiceSummary{Service: name, Source: string(source), Instances: int32(instances), State: "unknown"}
	all, observing := a.standings(name)
	for _, s := range all {
		if s.Served > 0 {
			out.Live++
		}
	}
	switch {
	case !observing:
	case out.Live == 0:
		out.State = "down"
	case out.Live < out.Instances:
		out.State = "degraded"
	default:
		out.State = "ready"
	}
	return out
}

// summarizer holds what summaries are made of.
type summarizer struct {
	catalogs map[string]service.Catalog // :: service name → catalog
	sagas    map[string]saga.Record     // :: service name → its newest saga
	live     map[string]int             // :: revision name → its live instances
}

func (a *API) summarizer(ctx context.Context) (*summarizer, error) {
	s := &summarizer{catalogs: map[string]service.Catalog{}, sagas: map[string]saga.Record{}, live: map[string]int{}}
	catalogs, _, err := list[service.Catalog](ctx, a.Store, service.KindCatalog, nil)
	if err != nil {
		return nil, err
	}
	for _, c := range catalogs {
		s.catalogs[c.Service] = c
	}
	sagas, _, err := list[saga.Record](ctx, a.Store, service.KindSaga, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range sagas {
		held, known := s.sagas[r.Owner]
		if r.Kind != kindCollect && (!known || newer(r, held)) {
			s.sagas[r.Owner] = r
		}
	}
	return s, a.countLive(ctx, s.live)
}

// countLive counts the live instances of each revision's present life: one of
// an earlier life of its name answers nobody, and of one on a host that nobody
// hears it is not known.
func (a *API) countLive(ctx context.Context, live map[string]int) error {
	revisions, _, err := list[service.Revision](ctx, a.Store, service.KindRevision, nil)
	if err != nil {
		return err
	}
	named := make(map[string]service.Revision, len(revisions)) // :: revision name → its record
	for _, r := range revisions {
		named[r.Name] = r
	}
	members, _, err := list[service.Gateway](ctx, a.Store, service.KindGateway, nil)
	if err != nil {
		return err
	}
	w := a.world(nil, members, 0)
	for _, list := range w.Of {
		for _, i := range list {
			r, known := named[i.Revision]
			told := w.Hosts[i.Host].Heard() || w.CutOff(i.Host) != ""
			if i.State == service.InstanceLive && told && (!known || r.Owns(i)) {
				live[i.Revision]++
			}
		}
	}
	return nil
}

// newer says that a tells more of its service's present than b: of one
// generation, what is open does.
func newer(a, b saga.Record) bool {
	switch {
	case a.Generation != b.Generation:
		return a.Generation > b.Generation
	case a.Open() != b.Open():
		return a.Open()
	}
	return a.Started.After(b.Started)
}

func (s *summarizer) of(d service.Desired) *fairleadv1.ServiceSummary {
	c := s.catalogs[d.Service]
	live := s.answering(c)
	return &fairleadv1.ServiceSummary{
		Service: d.Service, Source: string(registry.Host), Generation: d.Generation, ObservedGeneration: c.ObservedGeneration,
		State: s.state(d, c, live), Revision: c.Latest, Instances: int32(d.Instances), Live: int32(live),
	}
}

// answering counts the live instances of what has traffic: neither those of a
// revision that is kept warm nor those of one that is being deployed.
func (s *summarizer) answering(c service.Catalog) int {
	n, counted := 0, map[string]bool{}
	for _, part := range c.Traffic {
		if part.Percent > 0 && !counted[part.Revision] {
			counted[part.Revision] = true
			n += s.live[part.Revision]
		}
	}
	return n
}

func (s *summarizer) state(d service.Desired, c service.Catalog, live int) string {
	r, known := s.sagas[d.Service]
	current := known && r.Generation == d.Generation
	switch {
	case c.NeedsOperator != "" || current && r.State == saga.Parked:
		return "needs-operator"
	case d.Deleted:
		return "deleting"
	case current && (r.State == saga.Failed || r.State == saga.Waiting):
		return "failed"
	case c.ObservedGeneration < d.Generation || current && r.Open():
		return "deploying"
	case live == 0 && d.Instances > 0:
		return "down"
	case live < d.Instances:
		return "degraded"
	}
	return "ready"
}

// ListRevisions returns a service's revisions, ordered by name.
func (a *API) ListRevisions(ctx context.Context, req *connect.Request[fairleadv1.ListRevisionsRequest]) (*connect.Response[fairleadv1.ListRevisionsResponse], error) {
	if _, _, err := a.desired(ctx, req.Msg.GetService()); err != nil {
		return nil, err
	}
	all, err := a.revisions(ctx, req.Msg.GetService())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.ListRevisionsResponse{Revisions: revisionsTo(all)}), nil
}

// ListEvents returns the newest lines of a service's history, oldest first.
func (a *API) ListEvents(ctx context.Context, req *connect.Request[fairleadv1.ListEventsRequest]) (*connect.Response[fairleadv1.ListEventsResponse], error) {
	name := req.Msg.GetService()
	events, _, err := list[service.Event](ctx, a.Store, service.KindEvent, func(n string) bool { return strings.HasPrefix(n, name+".") })
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		if _, _, err := a.desired(ctx, name); err != nil {
			return nil, err
		}
	}
	limit := int(req.Msg.GetLimit())
	if limit <= 0 {
		limit = 100
	}
	slices.SortStableFunc(events, func(x, y service.Event) int { return x.At.Compare(y.At) })
	out := &fairleadv1.ListEventsResponse{}
	for _, e := range events[max(0, len(events)-limit):] {
		out.Events = append(out.Events, &fairleadv1.Event{
			At: timestamp(e.At), Generation: e.Generation, Revision: e.Revision, Attempt: e.Attempt, Kind: e.Kind, Text: e.Text,
		})
	}
	return connect.NewResponse(out), nil
}

// url is where a host name is reached, by a gateway that is connected if there
// is one. It has no port where none is known.
func (a *API) url(host string) string {
	address := ""
	for _, g := range a.Gateways.States() {
		if g.Public != "" && (address == "" || g.Connected) {
			address = g.Public
			if g.Connected {
				break
			}
		}
	}
	return service.URL(host, portOf(address))
}

func portOf(address string) uint16 {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}
