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

// deploy makes one revision serve.
func (j *job) deploy() saga.Definition {
	return saga.Definition{
		Kind: service.WorkDeploy, Version: 1,
		Steps: []saga.StepDefinition{
			{Name: "queue", Do: j.queue, NoUndo: "a revision's record is kept for a retry, and collected later"},
			{Name: "install", Do: j.install, Stands: j.installed, Undo: j.stopRevision},
			{Name: "instances", Do: j.instances, Stands: j.instancesStand, NoUndo: "the undo of install stops what was placed"},
			{Name: "ready", Do: j.ready, Stands: j.stillReady, NoUndo: "it only looks"},
			{Name: "routes", Do: j.routes, Stands: j.routesStand, Undo: j.unpublish},
			{Name: "finalize", Do: j.finalize, NoUndo: "it is one commit: done, or not done"},
		},
		Resume: j.resumeDeploy,
		Ending: j.endDeploy,
	}
}

// subject is the revision that the run is about.
func (j *job) subject(r *saga.Run) service.Doc[service.Revision] {
	return j.snapshot().Revision(r.Record.Subject)
}

// queue mints the revision: its name, which is that of its request group, its
// number, and its identity in this life.
func (j *job) queue(_ context.Context, r *saga.Run) error {
	s := j.snapshot()
	d := s.Desired.Value
	rev := service.Revision{
		Name: r.Record.Subject, Service: s.Service, Number: s.NextRevision(j.world()), Digest: s.Intent, Force: d.Force,
		State: service.RevisionPending, Minted: j.minted, CreatedAt: time.Now(), Generation: d.Generation,
		Template: d.Template, Round: d.Round,
	}
	r.Text("revision %s for generation %d", rev.Name, d.Generation)
	if old := j.subject(r); old.Exists() {
		if r.Version() == 0 {
			return fmt.Errorf("revision %s exists already", old.Value.Name)
		}
		return nil
	}
	if rev.Name != service.RevisionName(s.Service, rev.Number) {
		return fmt.Errorf("revision %s is not the next of %s any more", rev.Name, s.Service)
	}
	c := s.Catalog
	c.Value.Service, c.Value.LastRevision = s.Service, rev.Number
	r.Stage(
		putRevision(service.Doc[service.Revision]{Value: rev}), putCatalog(c),
		checkDoc(service.KindDesired, s.Service, s.Desired),
	)
	return nil
}

// install places the revision's instances, and has each host check that it can
// run them.
func (j *job) install(ctx context.Context, r *saga.Run) error {
	rev := j.subject(r)
	parts, _, err := j.wanted(j.snapshot(), rev.Value.Name)
	if err == nil {
		err = j.mayRun(rev.Value.Name, parts)
	}
	if err != nil {
		return err
	}
	placed, err := j.prepareSomewhere(ctx, r, rev.Value)
	if err != nil {
		return err
	}
	r.Text("%s", spread(placed.Slots))
	if !slices.Equal(placed.Slots, rev.Value.Slots) || len(placed.Leaving) != len(rev.Value.Leaving) {
		r.Stage(putRevision(service.Doc[service.Revision]{Value: placed, Version: rev.Version}))
	}
	return nil
}

// prepareSomewhere places the revision's instances on hosts that can run them.
// Where a host does not say for long whether it can, another one is asked, for
// as long as the attempt lasts.
func (j *job) prepareSomewhere(ctx context.Context, r *saga.Run, rev service.Revision) (service.Revision, error) {
	for {
		limit := rev.Template.ReadyDeadline() - time.Since(j.began)
		n := j.snapshot().Desired.Value.Instances
		var placed service.Revision
		err := j.await(ctx, r, limit, func() (bool, time.Duration, error) {
			w := j.withRefusals(j.world())
			var err error
			placed, err = leaveLost(rev, w).Yield(n, w).Grow(n, w)
			return err == nil, 0, other(err, service.ErrNoHost)
		})
		if errors.Is(err, errDeadline) {
			return placed, service.ErrNoHost
		}
		if err != nil {
			return placed, err
		}
		if err = j.prepare(ctx, r, placed); err == nil {
			return placed, nil
		}
		if cause := r.Interrupted(); cause != nil {
			return placed, cause
		}
		if !unsure(err) && !j.refused(placed) || time.Since(j.began) >= rev.Template.ReadyDeadline() {
			return placed, &saga.Failure{Reason: err.Error()}
		}
	}
}

// other is err unless it is the expected one.
func other(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// leaveLost moves slots on hosts that are not connected to Leaving: nothing
// waits for them, and their host is told to stop them when it returns.
func leaveLost(rev service.Revision, w *service.World) service.Revision {
	slots := rev.Slots
	rev.Slots, rev.Leaving = nil, slices.Clone(rev.Leaving)
	for _, s := range slots {
		if w.Hosts[s.Host].Connected {
			rev.Slots = append(rev.Slots, s)
		} else {
			rev.Leaving = append(rev.Leaving, s)
		}
	}
	return rev
}

func spread(slots []service.Slot) string {
	hosts := map[string]bool{}
	for _, s := range slots {
		hosts[s.Host] = true
	}
	return fmt.Sprintf("%s on %s", plural(len(slots), "instance"), plural(len(hosts), "host"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (j *job) installed(_ context.Context, r *saga.Run) (bool, error) {
	rev, w := j.subject(r), j.world()
	if len(rev.Value.Slots) != j.snapshot().Desired.Value.Instances {
		return false, nil
	}
	return !slices.ContainsFunc(rev.Value.Slots, func(s service.Slot) bool { return !w.Hosts[s.Host].Connected }), nil
}

func (j *job) instances(ctx context.Context, r *saga.Run) error {
	rev := j.subject(r).Value
	if j.exclusive(rev.Name) {
		_, plan, err := j.wanted(j.snapshot(), rev.Name)
		if err != nil {
			return err
		}
		if err := j.giveWay(ctx, r, rev.Name, plan); err != nil {
			return err
		}
		j.began = time.Now() // the attempt's deadline is for the new one's start
	}
	r.Text("%s", spread(rev.Slots))
	return j.assign(ctx, r, rev, rev.Slots)
}

func (j *job) instancesStand(_ context.Context, r *saga.Run) (bool, error) {
	if j.exclusive(r.Record.Subject) && len(j.others(r.Record.Subject)) > 0 {
		return false, nil
	}
	return len(j.subject(r).Value.Lost(j.world())) == 0, nil
}

func (j *job) ready(ctx context.Context, r *saga.Run) error {
	rev := j.subject(r).Value
	limit := max(rev.Template.ReadyDeadline()-time.Since(j.began), 0)
	if err := j.awaitReady(ctx, r, rev.Slots, j.judged(rev, rev.Round, false), limit); err != nil {
		return err
	}
	r.Text("%s live for %s and eligible", plural(len(rev.Slots), "instance"), j.c.cfg.Dwell)
	return nil
}

func (j *job) stillReady(_ context.Context, r *saga.Run) (bool, error) {
	rev := j.subject(r).Value
	n, _ := j.judged(rev, rev.Round, false).ready(rev.Slots, j.world())
	return n == len(rev.Slots), nil
}

// wanted is what the catalog is to say once the run's revision is the latest,
// and the route that says the same to gateways.
func (j *job) wanted(s *service.Snapshot, latest string) ([]service.CatalogPart, view.Route, error) {
	parts, err := s.Parts(latest)
	if err != nil {
		return nil, view.Route{}, err
	}
	return parts, s.PlanRoutes(parts, s.Desired.Value.HostsOf()), nil
}

// routes publishes the plan that finalize will record, and waits for the gateways
// and for the view.
func (j *job) routes(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	parts, plan, err := j.wanted(s, r.Record.Subject)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(parts), func(p service.CatalogPart) bool { return p.Revision == r.Record.Subject })
	if _, err := j.capacityFor(ctx, r, others); err != nil {
		return err
	}
	if err := j.publish(ctx, r, plan); err != nil {
		return err
	}
	settlement, err := j.announce(ctx, r)
	if err != nil {
		return err
	}
	text := service.PlanText(plan)
	if pinned := s.Desired.Value.Pinned(); pinned != "" {
		text += fmt.Sprintf("; traffic is pinned (%s), so %s gets 0%%: move it by fairlead traffic", pinned, r.Record.Subject)
	}
	r.Text("%s; %s", text, settlement.Text())
	return nil
}

func (j *job) routesStand(_ context.Context, r *saga.Run) (bool, error) {
	s := j.snapshot()
	_, plan, err := j.wanted(s, r.Record.Subject)
	if err != nil {
		return false, err
	}
	return s.Routes.Exists() && service.SamePlan(s.Routes.Value.Plan, plan), nil
}

// finalize records what is published. Where something else is published by
// now, what is about to be recorded is published first.
func (j *job) finalize(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	parts, plan, err := j.wanted(s, r.Record.Subject)
	if err != nil {
		return err
	}
	if !service.SamePlan(s.Routes.Value.Plan, plan) {
		if err := j.publish(ctx, r, plan); err != nil {
			return err
		}
		if _, err := j.announce(ctx, r); err != nil {
			return err
		}
		s = j.snapshot()
	}
	rev, c := s.Revision(r.Record.Subject), s.Catalog
	rev.Value.State, rev.Value.Reason = service.RevisionServing, ""
	c.Value = s.Record(parts, rev.Value.Name, time.Now(), j.c.cfg.Warm)
	c.Value.Hosts = s.Desired.Value.HostsOf()
	c.Value.ObservedGeneration = max(c.Value.ObservedGeneration, r.Record.Generation)
	c.Value.Instances = len(rev.Value.Slots)
	c.Value.Round = max(c.Value.Round, rev.Value.Round)
	r.Text("%s", c.Value.Serving())
	r.Stage(putRevision(rev), putCatalog(c), checkDoc(service.KindRoutes, j.service, s.Routes))
	return nil
}
