package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// resumeDeploy re-establishes the handover: hosts are given the time to report,
// and slots that they have lost are assigned again.
func (j *job) resumeDeploy(ctx context.Context, r *saga.Run) error {
	rev := j.subject(r)
	if !rev.Exists() {
		return fmt.Errorf("revision %s is not there any more", r.Record.Subject)
	}
	if rev.Value.State != service.RevisionPending && rev.Value.State != service.RevisionServing {
		rev.Value.State, rev.Value.Reason = service.RevisionPending, ""
		if _, err := j.apply(ctx, putRevision(rev)); err != nil {
			return err
		}
	}
	if err := j.awaitReports(ctx, r, rev.Value.Slots); err != nil {
		return err
	}
	if j.exclusive(r.Record.Subject) {
		return nil // its steps say when it may be started
	}
	rev = j.subject(r)
	if lost := rev.Value.Lost(j.world()); len(lost) > 0 {
		return j.assign(ctx, r, rev.Value, lost)
	}
	return nil
}

// awaitReports gives the hosts of slots some time to report after the lead
// changed. One that does not is not waited for any longer.
func (j *job) awaitReports(ctx context.Context, r *saga.Run, slots []service.Slot) error {
	limit := reportWait - time.Since(j.term.began)
	err := j.await(ctx, r, max(limit, 0), func() (bool, time.Duration, error) {
		w := j.world()
		return !slices.ContainsFunc(slots, func(s service.Slot) bool {
			h := w.Hosts[s.Host]
			return !h.Connected || !h.Reported
		}), 0, nil
	})
	return other(err, errDeadline)
}

// unpublish puts back what the catalog asks for, if the revision is routed and
// the catalog does not know it. What a leader before put back may not have been
// acknowledged yet: the attempt has not ended before it is.
func (j *job) unpublish(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	reason := "the deploy of " + r.Record.Subject + " failed"
	if j.exclusive(r.Record.Subject) {
		return j.giveBack(ctx, reason)
	}
	if s.Routes.Exists() && s.Routes.Value.Saga != r.Record.ID && !service.Names(s.Routes.Value.Plan, r.Record.Subject) {
		if _, reached := s.MayRoute(j.world()).Revision(r.Record.Subject); reached {
			return j.confirm(ctx)
		}
		return nil
	}
	return j.putBack(ctx, reason)
}

// stopRevision stops what was placed, unless some gateway may still route
// there: then it runs on, and the collector takes it when none may.
func (j *job) stopRevision(ctx context.Context, r *saga.Run) error {
	return j.stopUnrouted(ctx, nil, r.Record.Subject, "its deploy failed")
}

// stopUnrouted stops every slot of a revision that neither the catalog refers
// to nor any gateway may route to, once callers pick none of them. It is no
// error that it may not.
func (j *job) stopUnrouted(ctx context.Context, r *saga.Run, name, reason string) error {
	s := j.snapshot()
	rev := s.Revision(name)
	if !rev.Exists() || s.Catalog.Value.Referenced(name) || len(rev.Value.Slots)+len(rev.Value.Leaving) == 0 {
		return nil
	}
	if err := j.awaitReports(ctx, nil, rev.Value.Slots); err != nil {
		return err
	}
	if why, reached := s.MayRoute(j.world()).Revision(name); reached {
		j.c.log.Info("a revision is kept running", "revision", name, "why", why)
		return nil
	}
	rev.Value = rev.Value.Shrink(0)
	bound := []any{putRevision(rev), checkDoc(service.KindCatalog, j.service, s.Catalog), checkDoc(service.KindRoutes, j.service, s.Routes)}
	if _, err := j.apply(ctx, bound...); err != nil {
		return err
	}
	left, err := j.stopWithdrawn(ctx, r, j.snapshot().Revision(name).Value, reason)
	rev = j.snapshot().Revision(name)
	if len(left.Leaving) != len(rev.Value.Leaving) {
		rev.Value = left
		if _, recorded := j.apply(ctx, putRevision(rev)); recorded != nil {
			return errors.Join(err, recorded)
		}
	}
	return err
}

// endDeploy says what became of the revision. One that a later intent took the
// place of did not fail: it is retired, once nothing of it runs.
func (j *job) endDeploy(r *saga.Run, end saga.State) {
	rev := j.subject(r)
	if !rev.Exists() || j.snapshot().Catalog.Value.Referenced(rev.Value.Name) {
		return
	}
	rev.Value.State, rev.Value.Reason = service.RevisionFailed, r.Record.Error
	if end == saga.Superseded && len(rev.Value.Slots)+len(rev.Value.Leaving) == 0 {
		rev.Value.State = service.RevisionRetired
	}
	r.Stage(putRevision(rev))
}
