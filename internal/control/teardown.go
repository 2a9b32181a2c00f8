package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// teardown ends a service, be it one that only a gateway remembers: routes withdrawn and acknowledged, instances
// stopped, records and history erased, and last the desired document, bound
// to the tombstone's version. Where a newer document stands by then, it stays.
func (j *job) teardown() saga.Definition {
	const forward = "a deletion is only taken forward"
	return saga.Definition{
		Kind: service.WorkDelete, Version: 1,
		Steps: []saga.StepDefinition{
			{Name: "withdraw", Do: j.withdraw, Stands: j.withdrawn, NoUndo: forward},
			{Name: "stop", Do: j.stopAll, Stands: j.allStopped, NoUndo: forward},
			{Name: "erase", Do: j.erase, NoUndo: forward},
			{Name: "forget", Do: j.forgetService, NoUndo: forward},
		},
	}
}

func (j *job) withdraw(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	orphaned := slices.ContainsFunc(j.gateways(), func(g service.KnownGateway) bool { return g.Orphans(j.service) })
	if !s.Routes.Exists() && brokenRoutes(s) == 0 && !orphaned {
		r.Text("nothing was published")
		return nil
	}
	if err := j.publish(ctx, r, view.Route{Service: j.service, Deleted: true}); err != nil {
		return err
	}
	if err := j.confirm(ctx); err != nil {
		return err
	}
	r.Text("routes withdrawn; %s", service.Settled(j.gateways(), j.inForce(), j.service).Text())
	return nil
}

func (j *job) withdrawn(context.Context, *saga.Run) (bool, error) {
	s := j.snapshot()
	return brokenRoutes(s) == 0 && (!s.Routes.Exists() || s.Routes.Value.Plan.Deleted), nil
}

// stopAll stops every slot of every revision, and waits for the processes' end.
func (j *job) stopAll(ctx context.Context, r *saga.Run) error {
	drain, n := time.Duration(0), 0
	for _, doc := range j.snapshot().Revisions {
		rev := doc.Value
		if len(rev.Slots)+len(rev.Leaving) == 0 {
			continue
		}
		drain = max(drain, rev.Template.DrainTime())
		n += len(rev.Slots)
		if err := j.stopForGood(ctx, r, rev.Name, "the service is deleted"); err != nil {
			return err
		}
	}
	err := j.await(ctx, r, drain+commandWait, func() (bool, time.Duration, error) { return !j.anyProcess(), 0, nil })
	r.Text("%s stopped", plural(n, "instance"))
	return other(err, errDeadline) // its host has the stop on disk
}

// stopForGood waits until no gateway may route to the revision, then stops it.
func (j *job) stopForGood(ctx context.Context, r *saga.Run, name, reason string) error {
	why := ""
	err := j.await(ctx, r, publishWait, func() (bool, time.Duration, error) {
		var reached bool
		why, reached = j.snapshot().MayRoute(j.world()).Revision(name)
		return !reached, settleEvery, nil
	})
	if errors.Is(err, errDeadline) {
		return fmt.Errorf("%s is not stopped: %s", name, why)
	}
	if err != nil {
		return err
	}
	known := j.snapshot().Revision(name).Value
	if err := j.awaitReports(ctx, r, slices.Concat(known.Slots, known.Leaving)); err != nil {
		return err
	}
	s := j.snapshot()
	rev := s.Revision(name)
	if len(rev.Value.Slots) > 0 {
		rev.Value = rev.Value.Shrink(0)
		if _, err := j.apply(ctx, putRevision(rev), checkDoc(service.KindRoutes, j.service, s.Routes)); err != nil {
			return err
		}
	}
	rev = j.snapshot().Revision(name)
	left, err := j.stopWithdrawn(ctx, r, rev.Value, reason)
	if err != nil {
		return err
	}
	rev.Value = j.withoutGone(left)
	if _, err := j.apply(ctx, putRevision(rev)); err != nil {
		return err
	}
	if len(rev.Value.Leaving) > 0 {
		return fmt.Errorf("host %s is away and may still run slot %s", rev.Value.Leaving[0].Host, rev.Value.Leaving[0].ID)
	}
	return nil
}

// withoutGone forgets slots on hosts whose own lease has ended: when such a
// host returns, what it still runs is found to be nobody's, and stopped.
func (j *job) withoutGone(rev service.Revision) service.Revision {
	hosts := j.world().Hosts
	rev.Leaving = slices.DeleteFunc(slices.Clone(rev.Leaving), func(s service.Slot) bool {
		h, known := hosts[s.Host]
		if !known {
			return time.Since(j.term.began) >= hostGone
		}
		return !h.Connected && h.Silent >= hostGone
	})
	return rev
}

func (j *job) anyProcess() bool {
	for _, h := range j.c.cfg.Hosts.States() {
		for _, i := range h.Instances {
			if i.Service == j.service && i.State != service.InstanceExited && h.Connected {
				return true
			}
		}
	}
	return false
}

func (j *job) allStopped(context.Context, *saga.Run) (bool, error) {
	return !slices.ContainsFunc(j.snapshot().Revisions, func(d service.Doc[service.Revision]) bool {
		return len(d.Value.Slots)+len(d.Value.Leaving) > 0
	}), nil
}

// erase removes history, sagas, revisions and at last the catalog, in parts.
func (j *job) erase(ctx context.Context, r *saga.Run) error {
	n := 0
	for {
		gone := j.remains(r.Record.ID)
		if len(gone) == 0 {
			break
		}
		n += min(len(gone), eraseAtOnce)
		if _, err := j.apply(ctx, gone[:min(len(gone), eraseAtOnce)]...); err != nil {
			return err
		}
	}
	r.Text("%s erased", plural(n, "record"))
	return nil
}

// remains are the deletions of what is left of the service, but for the
// desired document, the claims of its host names, and the saga in hand.
func (j *job) remains(self string) []any {
	s := j.snapshot()
	var out []any
	for _, e := range s.Events {
		out = append(out, drop(key(service.KindEvent, e.Value), e.Version))
	}
	for _, d := range s.Sagas {
		if d.Value.ID != self {
			out = append(out, drop(key(service.KindSaga, d.Value.ID), d.Version))
		}
	}
	for _, d := range s.Revisions {
		out = append(out, drop(key(service.KindRevision, d.Value.Name), d.Version))
	}
	if s.Catalog.Exists() {
		out = append(out, drop(key(service.KindCatalog, j.service), s.Catalog.Version))
	}
	return out
}

// forgetService removes the tombstone that it reads, at that version, with the
// claims of host names. A newer document stays, with its claims.
func (j *job) forgetService(_ context.Context, r *saga.Run) error {
	s := j.snapshot()
	if s.Desired.Exists() && !s.Desired.Value.Deleted {
		r.Text("generation %d came meanwhile and stays", s.Desired.Value.Generation)
		return nil
	}
	if s.Desired.Exists() {
		r.Stage(drop(key(service.KindDesired, j.service), s.Desired.Version))
	}
	for _, c := range s.Claims {
		r.Stage(drop(key(service.KindHostName, c.Value), c.Version))
	}
	return nil
}
