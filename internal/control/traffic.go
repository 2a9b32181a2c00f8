package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// traffic moves traffic or host names among revisions: capacity first, then
// published, then recorded. Where everything runs, publishing is its first write.
func (j *job) traffic() saga.Definition {
	return saga.Definition{
		Kind: service.WorkTraffic, Version: 2,
		Steps: []saga.StepDefinition{
			{Name: "capacity", Do: j.capacity, Stands: j.capacityStands, Quiet: true, NoUndo: "what runs and is not referred to is collected"},
			{Name: "publish", Do: j.publishTraffic, Stands: j.trafficStands, Undo: j.restoreTraffic},
			{Name: "record", Do: j.recordTraffic, NoUndo: "it is one commit"},
		},
		Upgrade: upgradeTraffic,
	}
}

// upgradeTraffic maps a record of version 1, which had no step for capacity.
func upgradeTraffic(r saga.Record) (saga.Record, error) {
	if r.Definition != 1 || len(r.Steps) != 2 {
		return r, fmt.Errorf("a traffic saga of version %d with %d steps is not known", r.Definition, len(r.Steps))
	}
	r.Steps = slices.Insert(slices.Clone(r.Steps), 0, saga.Step{Name: "capacity"})
	return r, nil
}

// capacity has what traffic is to be moved to running and ready: a revision
// that was scaled down, stopped or retired is started again.
func (j *job) capacity(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	parts, _, err := j.wanted(s, s.LatestAfter())
	if err != nil {
		return err
	}
	r.Effect(service.EffectWanted, s.WantedTraffic())
	started, err := j.capacityFor(ctx, r, parts)
	if err != nil {
		return err
	}
	if started == 0 {
		r.Text("everything runs")
		return nil
	}
	r.Text("%s started again", plural(started, "revision"))
	return nil
}

// capacityFor starts what of the parts cannot take its share, and waits until
// it can.
func (j *job) capacityFor(ctx context.Context, r *saga.Run, parts []service.CatalogPart) (started int, err error) {
	for _, p := range parts {
		if j.bears(p) {
			continue
		}
		if err := j.startAgain(ctx, r, p.Revision); err != nil {
			return started, fmt.Errorf("no traffic is moved to %s: %w", p.Revision, err)
		}
		started++
	}
	return started, nil
}

// bears says that the part's revision can take its share. One that serves by
// the catalog is scaled and repaired on its own account: a live instance will do.
func (j *job) bears(p service.CatalogPart) bool {
	s, w := j.snapshot(), j.world()
	n := s.Desired.Value.Instances
	if n == 0 || p.Percent == 0 && p.Tag == "" {
		return true
	}
	rev := s.Revision(p.Revision).Value
	if s.Catalog.Value.Serves(p.Revision) {
		n = 1
		if len(rev.OnCutOff(w)) > 0 {
			return true
		}
	}
	live, _ := newWatch(0, rev, 0).ready(rev.Slots, w)
	return live >= n
}

func (j *job) startAgain(ctx context.Context, r *saga.Run, name string) error {
	s := j.snapshot()
	rev, n := s.Revision(name), s.Desired.Value.Instances
	if !rev.Exists() {
		return fmt.Errorf("revision %s is not there", name)
	}
	placed, err := leaveLost(rev.Value, j.world()).Yield(n, j.world()).Grow(n, j.world())
	if err != nil {
		return err
	}
	if err := j.prepare(ctx, r, placed); err != nil {
		return err
	}
	if j.exclusive(name) {
		parts, plan, err := j.wanted(s, s.LatestAfter())
		if err == nil {
			err = j.mayRun(name, parts)
		}
		if err != nil {
			return err
		}
		if err := j.giveWay(ctx, r, name, plan); err != nil {
			return err
		}
		rev = j.snapshot().Revision(name)
	}
	placed.State, placed.Reason = service.RevisionServing, "traffic is being moved to it"
	r.Stage(putRevision(service.Doc[service.Revision]{Value: placed, Version: rev.Version}))
	r.Text("%s of %s", spread(placed.Slots), name)
	if err := r.Checkpoint(ctx); err != nil {
		return err
	}
	if err := j.assign(ctx, r, placed, placed.Slots); err != nil {
		return err
	}
	return j.awaitReady(ctx, r, placed.Slots, j.judged(placed, 0, true), placed.Template.ReadyDeadline())
}

func (j *job) capacityStands(context.Context, *saga.Run) (bool, error) {
	s := j.snapshot()
	parts, _, err := j.wanted(s, s.LatestAfter())
	return err == nil && !slices.ContainsFunc(parts, func(p service.CatalogPart) bool { return !j.bears(p) }), err
}

func (j *job) publishTraffic(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	_, plan, err := j.wanted(s, s.LatestAfter())
	if err != nil {
		return err
	}
	if err := j.publish(ctx, r, plan); err != nil {
		return err
	}
	settlement, err := j.announce(ctx, r)
	if err != nil {
		return err
	}
	r.Text("%s; %s", service.PlanText(plan), settlement.Text())
	return nil
}

func (j *job) trafficStands(_ context.Context, _ *saga.Run) (bool, error) {
	s := j.snapshot()
	_, plan, err := j.wanted(s, s.LatestAfter())
	return err == nil && service.SamePlan(s.Routes.Value.Plan, plan), err
}

func (j *job) restoreTraffic(ctx context.Context, _ *saga.Run) error {
	const reason = "the change of traffic failed"
	if j.exclusive(service.Lead(j.snapshot().Catalog.Value.Traffic)) {
		return j.giveBack(ctx, reason)
	}
	return j.putBack(ctx, reason)
}

func (j *job) recordTraffic(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	latest := s.LatestAfter()
	parts, plan, err := j.wanted(s, latest)
	if err != nil {
		return err
	}
	if !service.SamePlan(s.Routes.Value.Plan, plan) {
		return fmt.Errorf("%w: other traffic is published than is to be recorded", saga.ErrSuperseded)
	}
	c := s.Catalog
	c.Value = s.Record(parts, latest, time.Now(), j.c.cfg.Warm)
	c.Value.Hosts = s.Desired.Value.HostsOf()
	r.Stage(putCatalog(c), checkDoc(service.KindRoutes, j.service, s.Routes), checkDoc(service.KindDesired, j.service, s.Desired))
	r.Text("%s", c.Value.Serving())
	return nil
}
