package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// snapshot reads what the store says of one service, and what is seen beside
// it now. The records are of one moment, unless the store is written without
// end meanwhile: whoever decides by them binds what it writes to them.
func (a *API) snapshot(ctx context.Context, name string) (*service.Snapshot, *service.World, error) {
	var s *service.Snapshot
	var w *service.World
	for range 3 {
		r := &reader{api: a, ctx: ctx, snapshot: &service.Snapshot{Service: name}}
		r.all()
		if r.err != nil {
			return nil, nil, r.err
		}
		s, w = r.snapshot, a.world(r.hosts, r.members, r.sequence)
		if !r.moved {
			break
		}
	}
	return s, w, nil
}

// reader reads the records of one service; the first error ends it.
type reader struct {
	api      *API
	ctx      context.Context
	snapshot *service.Snapshot
	members  []service.Gateway
	hosts    []service.Host
	sequence uint64
	moved    bool // something was written between two readings
	err      error
}

func (r *reader) all() {
	s := r.snapshot
	s.Sagas = readAll[saga.Record](r, service.KindSaga, func(n string) bool { return saga.OwnerOf(n) == s.Service })
	s.Revisions = readAll[service.Revision](r, service.KindRevision, func(n string) bool { return revisionOwner(n) == s.Service })
	s.Desired = readOne[service.Desired](r, service.KindDesired)
	s.Catalog = readOne[service.Catalog](r, service.KindCatalog)
	s.Routes = readOne[service.Routes](r, service.KindRoutes)
	for _, g := range readAll[service.Gateway](r, service.KindGateway, nil) {
		r.members = append(r.members, g.Value)
	}
	for _, b := range s.Broken {
		if b.Kind == service.KindGateway { // a member of which nothing else is known may route by anything
			r.members = append(r.members, service.Gateway{Name: b.Name})
		}
	}
	for _, h := range readAll[service.Host](r, service.KindHost, nil) {
		r.hosts = append(r.hosts, h.Value)
	}
	slices.SortFunc(s.Revisions, func(x, y service.Doc[service.Revision]) int { return cmp.Compare(x.Value.Number, y.Value.Number) })
	// The controller keys its digests by the store's incarnation.
	s.Intent = s.Desired.Value.Template.Digest(r.api.Store.Incarnation())
}

func revisionOwner(name string) string {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		return name[:i]
	}
	return name
}

// readAll reads the documents of a kind that keep wants. One of the service
// that cannot be read is noted.
func readAll[T any](r *reader, kind string, keep func(name string) bool) []service.Doc[T] {
	if r.err != nil {
		return nil
	}
	docs, sequence, err := r.api.Store.List(r.ctx, kind)
	if err != nil {
		r.err = err
		return nil
	}
	r.moved = r.moved || r.sequence != 0 && r.sequence != sequence
	r.sequence = sequence
	var out []service.Doc[T]
	for _, d := range docs {
		if keep != nil && !keep(d.Name) {
			continue
		}
		if v, ok := decode[T](r, d); ok {
			out = append(out, service.Doc[T]{Value: v, Version: d.Version})
		}
	}
	return out
}

// readOne reads the service's document of a kind.
func readOne[T any](r *reader, kind string) service.Doc[T] {
	if r.err != nil {
		return service.Doc[T]{}
	}
	d, err := r.api.Store.Get(r.ctx, store.Key{Kind: kind, Name: r.snapshot.Service})
	if errors.Is(err, store.ErrNotFound) {
		return service.Doc[T]{}
	}
	if err != nil {
		r.err = err
		return service.Doc[T]{}
	}
	v, ok := decode[T](r, d)
	if !ok {
		return service.Doc[T]{}
	}
	return service.Doc[T]{Value: v, Version: d.Version}
}

func decode[T any](r *reader, d store.Document) (v T, ok bool) {
	if err := json.Unmarshal(d.Body, &v); err != nil {
		r.snapshot.Broken = append(r.snapshot.Broken, service.Broken{Kind: d.Kind, Name: d.Name, Version: d.Version, Problem: err.Error()})
		return v, false
	}
	return v, true
}

// world is what is seen beside the store now, at that sequence. A gateway of
// which nothing was heard since the leader started is silent for ever.
func (a *API) world(hosts []service.Host, members []service.Gateway, sequence uint64) *service.World {
	w := a.hostsWorld(hosts)
	w.Gateways = service.Known(members, a.Gateways.States(), math.MaxInt64)
	w.Incarnation, w.Sequence = a.Store.Incarnation(), sequence
	w.Polls = service.Polls(w.Gateways)
	if a.Views != nil {
		w.MayPick = a.Views.MayPick
	}
	return w
}
