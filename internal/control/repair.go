package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// note is the write of a line of history that no saga tells.
func (j *job) note(kind, text string) any {
	return j.event(saga.Record{Generation: j.snapshot().Desired.Value.Generation}, kind, text)
}

// repairRoutes publishes again what the catalog says.
func (j *job) repairRoutes(ctx context.Context, work service.Work) error {
	s := j.snapshot()
	_, err := j.apply(ctx,
		j.routesWrite(s, s.RepairedRoutes(j.world()), "", work.Reason),
		checkDoc(service.KindCatalog, j.service, s.Catalog),
		j.note("repair", work.Reason+": published again"),
	)
	if err == nil {
		j.c.metrics.repairs.WithLabelValues("routes").Inc()
	}
	return err
}

// repairSlots assigns again what hosts have lost, and gives them a moment to say so.
func (j *job) repairSlots(ctx context.Context, work service.Work) error {
	rev := j.snapshot().Revision(work.Revision).Value
	lost := rev.Lost(j.world())
	if err := j.assign(ctx, nil, rev, lost); err != nil {
		return err
	}
	j.c.metrics.repairs.WithLabelValues("slots").Add(float64(len(lost)))
	if _, err := j.apply(ctx, j.note("repair", work.Reason+": assigned again")); err != nil {
		return err
	}
	err := j.await(ctx, nil, reportWait, func() (bool, time.Duration, error) {
		w := j.world()
		return !slices.ContainsFunc(lost, func(s service.Slot) bool { return len(rev.Processes(s.ID, w)) == 0 }), 0, nil
	})
	return other(err, errDeadline)
}

// rewarm places slots of the warm revision elsewhere whose host is gone or
// drains. What was placed is then lost, and assigned by the next look; who rolls
// back waits for what is not live yet.
func (j *job) rewarm(ctx context.Context, work service.Work) error {
	s := j.snapshot()
	rev := s.Revision(work.Revision)
	placed, err := s.Rewarmed(j.world())
	if err != nil {
		return err
	}
	rev.Value = placed
	if _, err := j.apply(ctx, putRevision(rev), checkDoc(service.KindCatalog, j.service, s.Catalog), j.note("repair", work.Reason+": placed elsewhere")); err != nil {
		return err
	}
	j.c.metrics.repairs.WithLabelValues("warm").Inc()
	return nil
}

// observe notes a generation that is met.
func (j *job) observe(ctx context.Context) error {
	s := j.snapshot()
	c := s.Catalog
	c.Value.ObservedGeneration = s.Desired.Value.Generation
	_, err := j.apply(ctx, putCatalog(c), checkDoc(service.KindDesired, j.service, s.Desired))
	return err
}

// noteNeeds writes down what only a person can settle, so that it outlives this
// leader, or that it is settled.
func (j *job) noteNeeds(ctx context.Context, work service.Work) error {
	c := j.snapshot().Catalog
	text := "needs an operator: " + work.NeedsOperator
	if work.NeedsOperator == "" {
		text = "needs no operator any more; settled is: " + c.Value.NeedsOperator
	}
	c.Value.NeedsOperator = work.NeedsOperator
	_, err := j.apply(ctx, putCatalog(c), j.note("needs-operator", text))
	return err
}

// adopt notes at a saga that waits that a later generation has come, which
// changes nothing for it: not its back-off either.
func (j *job) adopt(ctx context.Context, work service.Work) error {
	r := work.Saga
	r.Generation = j.snapshot().Desired.Value.Generation
	_, err := j.apply(ctx, put(key(service.KindSaga, r.ID), work.Version, r))
	return err
}

// cool ends the window in which the earlier revision is kept warm.
func (j *job) cool(ctx context.Context) error {
	c := j.snapshot().Catalog
	c.Value.Warm, c.Value.WarmUntil = "", time.Time{}
	_, err := j.apply(ctx, putCatalog(c))
	return err
}

// trim erases history beyond its bounds.
func (j *job) trim(ctx context.Context) error {
	e := j.snapshot().Excess()
	var gone []any
	for _, d := range e.Revisions {
		gone = append(gone, drop(key(service.KindRevision, d.Value.Name), d.Version))
	}
	for _, d := range e.Sagas {
		gone = append(gone, drop(key(service.KindSaga, d.Value.ID), d.Version))
	}
	for _, d := range e.Events {
		gone = append(gone, drop(key(service.KindEvent, d.Value), d.Version))
	}
	_, err := j.apply(ctx, gone[:min(len(gone), eraseAtOnce)]...)
	return err
}

// freeClaims sets host names free that lead here no more.
func (j *job) freeClaims(ctx context.Context) error {
	s := j.snapshot()
	staged := []any{checkDoc(service.KindDesired, j.service, s.Desired), checkDoc(service.KindRoutes, j.service, s.Routes)}
	for _, c := range s.FreeClaims() {
		staged = append(staged, drop(key(service.KindHostName, c.Value), c.Version))
	}
	_, err := j.apply(ctx, staged...)
	return err
}

// dropRoutes removes the withdrawn routes of a service that is gone.
func (j *job) dropRoutes(ctx context.Context) error {
	s := j.snapshot()
	_, err := j.apply(ctx, drop(key(service.KindRoutes, j.service), s.Routes.Version), checkDoc(service.KindDesired, j.service, s.Desired))
	return err
}

// tellEnds tells the history of processes that ended by themselves. What cannot
// be written is lost: nothing else of the service is to wait for it.
func (j *job) tellEnds(ctx context.Context) error {
	s := j.snapshot()
	list := s.Ends(j.world())
	var staged []any
	for _, e := range list {
		staged = append(staged, j.event(saga.Record{Generation: s.Desired.Value.Generation, Subject: e.Revision.Name}, "instance", e.Text()))
	}
	if _, err := j.apply(ctx, staged...); err != nil {
		j.c.log.Warn("cannot tell the history of what ended", "service", j.service, "error", err)
	}
	for _, e := range list {
		j.clocks.tell(service.StrayKey(e.Slot.ID, e.Revision.Minted), e.All)
	}
	return nil
}

// endStrays tells hosts to end processes that no record asks for, once callers
// pick none of them.
func (j *job) endStrays(ctx context.Context) error {
	strays := j.snapshot().Strays(j.world())
	if err := j.leaveCallers(ctx, nil, strays, "nobody asked for it"); err != nil {
		return err
	}
	err := each(strays, func(i service.Instance) error {
		return j.c.cfg.Hosts.Stop(ctx, j.led.Epoch(), i.Host, service.Stop{Slot: i.Slot, Minted: i.Minted, Reason: "nobody asked for it"})
	})
	if err != nil {
		return fmt.Errorf("cannot stop what nobody asked for: %w", err)
	}
	j.c.metrics.repairs.WithLabelValues("strays").Add(float64(len(strays)))
	return nil
}

// stopStrays stops processes that no record asks for, and waits for their end.
func (j *job) stopStrays(ctx context.Context, work service.Work) error {
	ctx, cancel := context.WithTimeout(ctx, commandWait+routing.Grace)
	defer cancel()
	if err := j.endStrays(ctx); err != nil {
		return err
	}
	j.c.log.Warn("stopped what nobody asked for", "service", j.service, "reason", work.Reason)
	err := j.await(ctx, nil, reportWait, func() (bool, time.Duration, error) { return len(j.snapshot().Strays(j.world())) == 0, 0, nil })
	return other(err, errDeadline)
}
