package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// DeleteService writes a tombstone. A service that has one keeps it; one that
// only a gateway remembers is given one, so that its end is published.
func (a *API) DeleteService(ctx context.Context, req *connect.Request[fairleadv1.DeleteServiceRequest]) (*connect.Response[fairleadv1.DeleteServiceResponse], error) {
	name := req.Msg.GetService()
	author := service.Author{By: by(ctx, req.Msg.GetBy()), At: a.Now()}
	d, _, err := a.desired(ctx, name)
	if gateway := a.orphanOf(name); errors.Is(err, fault.NotFound) && gateway != "" {
		return a.bury(ctx, name, gateway, author)
	}
	if err != nil {
		return nil, err
	}
	if d.Deleted {
		return connect.NewResponse(&fairleadv1.DeleteServiceResponse{Generation: d.Generation}), nil
	}
	generation, err := a.change(ctx, name, "delete", func(d service.Desired) (service.Desired, error) {
		return d.Delete(author), nil
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.DeleteServiceResponse{Generation: generation}), nil
}

// orphanOf names a gateway that serves the service by a route that this store
// does not have; empty when none does.
func (a *API) orphanOf(name string) string {
	for _, g := range a.Gateways.States() {
		if strings.HasPrefix(g.Refused[name], view.ReasonOrphaned) {
			return g.Name
		}
	}
	return ""
}

// bury writes the tombstone of a service that only a gateway remembers.
func (a *API) bury(ctx context.Context, name, gateway string, author service.Author) (*connect.Response[fairleadv1.DeleteServiceResponse], error) {
	next := service.Desired{Service: name, Generation: 1, Deleted: true, By: author.By, At: author.At}
	if err := next.Check(); err != nil {
		return nil, err
	}
	err := a.write(ctx, change{next: next, verb: fmt.Sprintf("delete of what only gateway %s remembers", gateway)})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.DeleteServiceResponse{Generation: next.Generation}), nil
}

// DeleteRevision forgets a revision that runs nowhere and that nothing refers
// to. It is bound to every record that the judgement was made from.
func (a *API) DeleteRevision(ctx context.Context, req *connect.Request[fairleadv1.DeleteRevisionRequest]) (*connect.Response[fairleadv1.DeleteRevisionResponse], error) {
	m := req.Msg
	err := a.retry(func() error {
		if _, _, err := a.desired(ctx, m.GetService()); err != nil {
			return err
		}
		s, w, err := a.snapshot(ctx, m.GetService())
		if err != nil {
			return err
		}
		rev := s.Revision(m.GetRevision())
		if !rev.Exists() {
			return fault.New(fault.NotFound, "list them by: fairlead revisions "+m.GetService(), "there is no revision %q of service %s", m.GetRevision(), m.GetService())
		}
		if why, hint := keptFor(s, w, rev.Value); why != "" {
			return fault.New(fault.Conflict, hint, "revision %s is not deleted: %s", rev.Value.Name, why)
		}
		return a.forget(ctx, s, rev, by(ctx, m.GetBy()))
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.DeleteRevisionResponse{}), nil
}

// keptFor says why the revision's record is needed, and what to do; an empty
// why says that it is not.
func keptFor(s *service.Snapshot, w *service.World, r service.Revision) (why, hint string) {
	traffic := fmt.Sprintf("move it first: fairlead traffic %s REVISION=PERCENT", s.Service)
	for _, p := range s.Catalog.Value.Traffic {
		if p.Revision == r.Name && p.Percent > 0 {
			return fmt.Sprintf("%d%% of the traffic goes to it", p.Percent), traffic
		}
		if p.Revision == r.Name && p.Tag != "" {
			return "tag " + p.Tag + " leads to it", fmt.Sprintf("remove the tag first: fairlead traffic %s --tag %s-", s.Service, p.Tag)
		}
	}
	if s.Catalog.Value.Latest == r.Name {
		return "it is the latest revision", "deploy another first"
	}
	if s.Desired.Value.Names(r.Name) {
		return "traffic is asked to go to it", traffic
	}
	wait := fmt.Sprintf("`fairlead explain %s` says until when", s.Service)
	if kept := s.KeptBy(r); kept != "" {
		return kept, wait
	}
	if reached, ok := s.MayRoute(w).Revision(r.Name); ok {
		return reached, wait
	}
	switch {
	case len(r.Slots)+len(r.Leaving) > 0:
		return "its instances have not been stopped yet", wait
	case s.Desired.Value.Force == r.Force && s.Intent == r.Digest:
		return "it is what is asked for today, and its record keeps it from being tried again", "deploy something else first"
	case r.Number > s.Catalog.Value.LastRevision:
		return "its number would be given to another", wait
	}
	return "", ""
}

func (a *API) forget(ctx context.Context, s *service.Snapshot, rev service.Doc[service.Revision], author string) error {
	if author == "" {
		author = "somebody"
	}
	line, err := json.Marshal(service.Event{
		Service: s.Service, At: a.Now(), Generation: s.Desired.Value.Generation, Revision: rev.Value.Name,
		Kind: "desired", Text: fmt.Sprintf("the record of %s deleted by %s", rev.Value.Name, author),
	})
	if err != nil {
		return fmt.Errorf("cannot encode a line of history: %w", err)
	}
	return a.apply(ctx, store.Apply{
		ID: a.NewID(),
		Checks: []store.Check{
			{Key: store.Key{Kind: service.KindDesired, Name: s.Service}, Version: s.Desired.Version},
			{Key: store.Key{Kind: service.KindCatalog, Name: s.Service}, Version: s.Catalog.Version},
			{Key: store.Key{Kind: service.KindRoutes, Name: s.Service}, Version: s.Routes.Version},
		},
		Writes: []store.Write{
			{Key: store.Key{Kind: service.KindRevision, Name: rev.Value.Name}, Expect: rev.Version, Delete: true},
			{Key: store.Key{Kind: service.KindEvent, Name: s.Service + "." + a.NewID()}, Body: line},
		},
	})
}
