package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// An exclusive handover: a hold is published and acknowledged by every known
// gateway, so that requests wait; what runs drains and stops; only then is the
// new one started. Going back is the same the other way round.

// exclusive says that the revision, or what serves by the catalog, cannot run
// beside another.
func (j *job) exclusive(name string) bool {
	s := j.snapshot()
	lead := service.Lead(s.Catalog.Value.Traffic)
	return s.Revision(name).Value.Exclusive() || s.Revision(lead).Value.Exclusive()
}

// mayRun refuses a revision that was to run beside another, where that cannot be.
func (j *job) mayRun(name string, parts []service.CatalogPart) error {
	lead := service.Lead(j.snapshot().Catalog.Value.Traffic)
	if lead == "" || lead == name || !j.exclusive(name) {
		return nil
	}
	for _, p := range parts {
		if p.Revision != name && (p.Percent > 0 || p.Tag != "") {
			return fmt.Errorf("%s cannot run beside %s, as the handover is %s: move all traffic to it by fairlead traffic", name, p.Revision, service.HandoverExclusive)
		}
	}
	return nil
}

// others are the revisions beside the named one that may run.
func (j *job) others(name string) []string {
	s := j.snapshot()
	var out []string
	for _, r := range s.Revisions {
		if r.Value.Name != name && len(r.Value.Slots)+len(r.Value.Leaving) > 0 {
			out = append(out, r.Value.Name)
		}
	}
	for _, p := range s.Beside(name, j.world()) {
		if !slices.Contains(out, p.Of) {
			out = append(out, p.Of)
		}
	}
	return out
}

// lost says that a host which may run something beside the named revision is
// lost: its lease has ended, and nobody can say whether that has.
func (j *job) lost(name string) error {
	w := j.world()
	for _, p := range j.snapshot().Beside(name, w) {
		if w.Gone[p.Host] {
			return fmt.Errorf("the exclusive handover does not go on: host %s is lost, and may still run slot %s; if it does not come back: fairlead hosts retire %s", p.Host, p.Slot, p.Host)
		}
	}
	return nil
}

// giveWay stops whatever runs beside the named revision, under a hold of the
// plan that leads to it.
func (j *job) giveWay(ctx context.Context, r *saga.Run, name string, plan view.Route) error {
	if len(j.others(name)) == 0 {
		return nil
	}
	if behind := j.behind(); len(behind) > 0 {
		return fmt.Errorf("the exclusive handover does not begin while gateway %s is behind: it may still route to what has to stop", strings.Join(behind, ", "))
	}
	if err := j.stoppable(name); err != nil {
		return err
	}
	r.Effect(service.EffectHold, time.Now().Add(j.stopWithin(name)).UTC().Format(time.RFC3339))
	if err := j.publish(ctx, r, service.Held(plan)); err != nil {
		return err
	}
	settlement, err := j.settle(ctx, r)
	if err != nil {
		return err
	}
	if len(settlement.Behind) > 0 {
		return fmt.Errorf("the exclusive handover does not go on while gateway %s is behind: it may still route to what has to stop", strings.Join(settlement.Behind, ", "))
	}
	return j.stopOthers(ctx, r, name)
}

// stoppable refuses to hold requests for the end of what cannot be told to end.
func (j *job) stoppable(name string) error {
	s, w := j.snapshot(), j.world()
	for _, other := range j.others(name) {
		rev := s.Revision(other).Value
		rev.Slots = slices.Concat(rev.Slots, rev.Leaving)
		if slots := rev.OnCutOff(w); len(slots) > 0 {
			return fmt.Errorf("the exclusive handover does not begin while host %s is not heard and polls gateway %s: it runs slot %s", slots[0].Host, w.CutOff(slots[0].Host), slots[0].ID)
		}
	}
	for _, i := range w.Of[j.service] {
		if i.Revision != name && i.State != service.InstanceExited && !w.Hosts[i.Host].Heard() && !w.IsRetired(i.Host) {
			return fmt.Errorf("the exclusive handover does not begin while host %s is not heard: it may still run slot %s; if it does not come back: fairlead hosts retire %s", i.Host, i.Slot, i.Host)
		}
	}
	return nil
}

// behind names the gateways that are.
func (j *job) behind() []string {
	var out []string
	for _, g := range j.gateways() {
		if g.Behind() {
			out = append(out, g.Name)
		}
	}
	return out
}

// stopWithin is how long what runs beside the named revision is given to end.
// What no slot asks for counts as nobody's only after a while.
func (j *job) stopWithin(name string) time.Duration {
	limit := commandWait
	for _, other := range j.others(name) {
		if rev := j.snapshot().Revision(other); rev.Exists() {
			limit = max(limit, rev.Value.Template.DrainTime()+commandWait)
		}
	}
	return limit + service.StrayAfter
}

// stopOthers stops what runs beside the named revision, once no gateway may
// route there, and waits for the end of its processes.
func (j *job) stopOthers(ctx context.Context, r *saga.Run, name string) error {
	limit := j.stopWithin(name)
	for _, other := range j.others(name) {
		if !j.snapshot().Revision(other).Exists() {
			continue
		}
		if err := j.stopForGood(ctx, r, other, "it gives way to "+name); err != nil {
			return err
		}
	}
	// What no slot asks for was stopped by nothing above.
	var told time.Time
	err := j.await(ctx, r, limit, func() (bool, time.Duration, error) {
		if len(j.others(name)) == 0 {
			return true, 0, nil
		}
		if err := j.lost(name); err != nil {
			return false, 0, err
		}
		if time.Since(told) < reportWait {
			return false, 0, nil
		}
		told = time.Now()
		return false, 0, j.endStrays(ctx)
	})
	if errors.Is(err, errDeadline) {
		return fmt.Errorf("%s has not stopped within %s", strings.Join(j.others(name), ", "), limit)
	}
	return err
}

// giveBack undoes an exclusive handover by looking: where what the catalog
// names does not run any more, requests are held, what was started beside is
// stopped, and what the catalog names is started again, ready and allowed.
func (j *job) giveBack(ctx context.Context, reason string) error {
	s := j.snapshot()
	lead := service.Lead(s.Catalog.Value.Traffic)
	if s.Desired.Value.Deleted {
		return nil // the deletion withdraws the routes and stops everything
	}
	if lead == "" {
		return j.putBack(ctx, reason)
	}
	// As long as it runs, nothing was started beside it.
	if !j.bears(service.CatalogPart{Revision: lead, Percent: 100}) {
		if err := j.startLead(ctx, lead, reason); err != nil {
			return err
		}
	}
	return j.putBack(ctx, reason)
}

func (j *job) startLead(ctx context.Context, lead, reason string) error {
	s := j.snapshot()
	if hold := service.Held(s.CatalogRoutes()); !service.SamePlan(s.Routes.Value.Plan, hold) {
		if _, err := j.apply(ctx, essential{}, j.routesWrite(s, hold, "", reason), checkDoc(service.KindCatalog, j.service, s.Catalog)); err != nil {
			return fmt.Errorf("cannot hold requests: %w", err)
		}
	}
	if err := j.confirm(ctx); err != nil {
		return err
	}
	if err := j.stopOthers(ctx, nil, lead); err != nil {
		return err
	}
	s = j.snapshot()
	rev, n := s.Revision(lead), s.Desired.Value.Instances
	placed, err := leaveLost(rev.Value, j.world()).Yield(n, j.world()).Grow(n, j.world())
	if err != nil {
		return err
	}
	if _, err := j.apply(ctx, essential{}, putRevision(service.Doc[service.Revision]{Value: placed, Version: rev.Version})); err != nil {
		return err
	}
	if err := j.assign(ctx, nil, placed, placed.Slots); err != nil {
		return err
	}
	return j.awaitReady(ctx, nil, placed.Slots, j.puttingBack(placed), placed.Template.ReadyDeadline()+putBackPatience)
}

// moveAlone has slots of what cannot run beside another leave hosts that drain:
// requests are held, the slots stop, and only when their processes have ended
// may the rest of the saga start those that take their place.
func (j *job) moveAlone(ctx context.Context, r *saga.Run, placed service.Doc[service.Revision], n int) error {
	rev := placed.Value
	leaves := rev.OnDraining(j.world())
	check := rev
	check.Slots = rev.Staying(j.world())
	if err := j.prepare(ctx, r, check); err != nil {
		return err
	}
	behind := j.behind()
	if len(behind) > 0 {
		return fmt.Errorf("%s does not move while gateway %s is behind: it may still route to what has to stop", rev.Name, strings.Join(behind, ", "))
	}
	if err := j.publish(ctx, r, service.Held(j.snapshot().CatalogRoutes())); err != nil {
		return err
	}
	if settlement, err := j.settle(ctx, r); err != nil || len(settlement.Behind) > 0 {
		return cmp.Or(err, fmt.Errorf("%s does not move while gateway %s is behind: it may still route to what has to stop", rev.Name, strings.Join(settlement.Behind, ", ")))
	}
	placed.Value = rev.Shed(n, j.world())
	r.Stage(putRevision(placed))
	if err := r.Checkpoint(ctx); err != nil {
		return err
	}
	if _, err := j.stopWithdrawn(ctx, r, placed.Value, "it moves to another host"); err != nil {
		return err
	}
	limit := rev.Template.DrainTime() + commandWait
	err := j.await(ctx, r, limit, func() (bool, time.Duration, error) { return !runsIn(rev, leaves, j.world()), 0, nil })
	if errors.Is(err, errDeadline) {
		return fmt.Errorf("what runs on host %s has not stopped within %s", leaves[0].Host, limit)
	}
	return err
}

// runsIn says that a process of the revision runs in one of the slots.
func runsIn(rev service.Revision, slots []service.Slot, w *service.World) bool {
	return slices.ContainsFunc(slots, func(s service.Slot) bool {
		return slices.ContainsFunc(rev.Processes(s.ID, w), func(i service.Instance) bool { return !ended(i) })
	})
}

// endHold publishes the catalog's routes again where this run holds requests.
func (j *job) endHold(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	want := s.CatalogRoutes()
	if s.Routes.Value.Saga != r.Record.ID || service.SamePlan(s.Routes.Value.Plan, want) {
		return nil
	}
	if err := j.publish(ctx, r, want); err != nil {
		return err
	}
	_, err := j.settle(ctx, r)
	return err
}
