package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// routesWrite puts plan in force, bound to what is published now.
func (j *job) routesWrite(s *service.Snapshot, plan view.Route, sagaID, reason string) store.Write {
	version := s.Routes.Version
	if !s.Routes.Exists() {
		version = brokenRoutes(s)
	}
	next := s.Publish(plan, sagaID, reason, j.world())
	next.At = time.Now()
	return put(key(service.KindRoutes, s.Service), version, next)
}

// publish puts plan in force as an effect of the run, unless this saga has
// done so already and it stands. The record of the effect and the routes are
// one commit. A group that no live instance polls is not published, except held.
func (j *job) publish(ctx context.Context, r *saga.Run, plan view.Route) error {
	s := j.snapshot()
	if s.Routes.Exists() && service.SamePlan(s.Routes.Value.Plan, plan) {
		return nil
	}
	if rev := s.Unpolled(plan, j.world()); rev != "" {
		return fmt.Errorf("cannot publish the routes: no instance of %s is live any more", rev)
	}
	r.Effect("published", service.PlanText(plan))
	r.Stage(
		j.routesWrite(s, plan, r.Record.ID, r.Record.Kind+" of generation "+fmt.Sprint(r.Record.Generation)),
		j.event(r.Record, "routes", "published: "+service.PlanText(plan)),
	)
	if err := r.Checkpoint(ctx); err != nil {
		return fmt.Errorf("cannot publish the routes: %w", err)
	}
	return nil
}

// settle waits until every known gateway has acknowledged the routes in force,
// or is behind, and at least one has acknowledged. A nil run is not interrupted.
func (j *job) settle(ctx context.Context, r *saga.Run) (service.Settlement, error) {
	var last service.Settlement
	err := j.await(ctx, r, publishWait, func() (bool, time.Duration, error) {
		last = service.Settled(j.gateways(), j.inForce(), j.service)
		if len(last.Refused) > 0 {
			return false, 0, fmt.Errorf("the route is refused: %s", refusals(last.Refused))
		}
		return last.Done, settleEvery, nil
	})
	if errors.Is(err, errDeadline) {
		if len(last.Acknowledged)+len(last.Waiting) == 0 {
			if len(last.Behind) == 0 {
				return last, fmt.Errorf("no gateway is known: the routes were not acknowledged within %s", publishWait)
			}
			return last, fmt.Errorf("no gateway is heard (%s): the routes were not acknowledged within %s", strings.Join(last.Behind, ", "), publishWait)
		}
		return last, fmt.Errorf("the routes were not acknowledged within %s: %s", publishWait, last.Text())
	}
	return last, err
}

// announce settles, and waits until callers who pick by views are sent to what
// the routes name: who comes after that is told of it.
func (j *job) announce(ctx context.Context, r *saga.Run) (service.Settlement, error) {
	settlement, err := j.settle(ctx, r)
	if err != nil {
		return settlement, err
	}
	why := ""
	err = j.await(ctx, r, publishWait, func() (bool, time.Duration, error) {
		var follows bool
		why, follows = j.c.cfg.Callers.Follows(j.service, j.snapshot().Routes.Version)
		return follows, announceLook, nil
	})
	if errors.Is(err, errDeadline) {
		return settlement, fmt.Errorf("the view that holds what the routes name was not published within %s: %s", publishWait, why)
	}
	return settlement, err
}

func refusals(m map[string]string) string {
	var out []string
	for gateway, why := range m {
		out = append(out, "gateway "+gateway+": "+why)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// putBack publishes what the catalog asks for, where something else is
// published, and waits until the gateways have it. It is asked for after
// failures, so it looks, and is not interrupted.
func (j *job) putBack(ctx context.Context, reason string) error {
	s := j.snapshot()
	want := s.CatalogRoutes()
	published := s.Routes.Value.Plan
	if !s.Routes.Exists() {
		if brokenRoutes(s) == 0 && len(want.Splits) == 0 {
			return nil // nothing was ever published
		}
	} else if service.SamePlan(published, want) {
		return j.confirm(ctx)
	}
	staged := []any{essential{}, j.routesWrite(s, want, "", reason)}
	if s.Catalog.Exists() {
		staged = append(staged, checkDoc(service.KindCatalog, j.service, s.Catalog))
	}
	if _, err := j.apply(ctx, staged...); err != nil {
		return fmt.Errorf("cannot publish the earlier routes again: %w", err)
	}
	return j.confirm(ctx)
}

// confirm waits until no gateway that is heard may hold other routes than
// those in force. Where none is heard there is nobody to wait for; what it may
// still route to is kept by who asks before a stop.
func (j *job) confirm(ctx context.Context) error {
	var last service.Settlement
	err := j.await(ctx, nil, publishWait, func() (bool, time.Duration, error) {
		last = service.Settled(j.gateways(), j.inForce(), j.service)
		return len(last.Waiting) == 0, settleEvery, nil
	})
	if errors.Is(err, errDeadline) {
		return fmt.Errorf("the earlier routes were not acknowledged within %s: %s", publishWait, last.Text())
	}
	return err
}

// inForce is the table version from which on the service's routes are those
// of its record now.
func (j *job) inForce() view.Version {
	e := j.led.Epoch()
	return view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: j.snapshot().Routes.Version}
}
