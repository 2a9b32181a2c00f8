package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// job is one saga being run for one service by its worker.
type job struct {
	*term
	service string
	minted  string // identity of the saga, an instant plus random
	began   time.Time
	// frees says that the work gives room back, or leads to that: what it
	// writes may use the store's ballast.
	frees bool
	full  fullHosts
}

// do does one piece of work.
func (t *term) do(ctx context.Context, s *service.Snapshot, work service.Work) error {
	t.c.log.Debug("works", "service", s.Service, "work", work.Kind, "revision", work.Revision, "reason", work.Reason)
	j := &job{term: t, service: s.Service, began: time.Now(), frees: work.Kind == service.WorkDelete || work.Kind == service.WorkCollect}
	switch work.Kind {
	case service.WorkRoutes:
		return j.repairRoutes(ctx, work)
	case service.WorkSlots:
		return j.repairSlots(ctx, work)
	case service.WorkObserve:
		return j.observe(ctx)
	case service.WorkCool:
		return j.cool(ctx)
	case service.WorkTrim:
		return j.trim(ctx)
	case service.WorkClaims:
		return j.freeClaims(ctx)
	case service.WorkAdopt:
		return j.adopt(ctx, work)
	case service.WorkRewarm:
		return j.rewarm(ctx, work)
	case service.WorkNeeds:
		return j.noteNeeds(ctx, work)
	case service.WorkEnds:
		return j.tellEnds(ctx)
	case service.WorkStrays:
		return j.stopStrays(ctx, work)
	case service.WorkDropRoutes:
		return j.dropRoutes(ctx)
	}
	return j.drive(ctx, s, work)
}

// definitions of every kind of saga, for one job.
func (j *job) definition(kind string) (saga.Definition, bool) {
	switch kind {
	case service.WorkDeploy:
		return j.deploy(), true
	case service.WorkScale:
		return j.scale(), true
	case service.WorkRestart:
		return j.restart(), true
	case service.WorkTraffic:
		return j.traffic(), true
	case service.WorkDelete:
		return j.teardown(), true
	case service.WorkCollect:
		return j.collect(), true
	}
	return saga.Definition{}, false
}

// drive mints or resumes a saga and takes it as far as it gets.
func (j *job) drive(ctx context.Context, s *service.Snapshot, work service.Work) error {
	d, ok := j.definition(work.Kind)
	if !ok {
		return fmt.Errorf("saga %s is of kind %q, which this program does not know", work.Saga.ID, work.Kind)
	}
	rec := work.Saga
	if work.Version == 0 {
		j.minted = j.c.mint()
		rec = d.New(saga.Identity{Owner: s.Service, Kind: work.Kind, Subject: work.Revision, Minted: j.minted}, s.Desired.Value.Generation)
	} else if rec.State == saga.Waiting && s.Desired.Value.Generation > rec.Generation && s.Superseded(rec) == "" && s.AbortedBy(rec) == "" {
		rec.Generation, rec.Backoff = s.Desired.Value.Generation, 0 // back-off belongs to a generation
	}
	end, err := j.engine().Drive(ctx, d, rec, work.Version)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.c.metrics.sagas.WithLabelValues(end.Kind, string(end.State)).Inc()
	return err
}

func (j *job) engine() *saga.Engine {
	return &saga.Engine{Journal: journal{j}, Now: time.Now, Interrupt: j.interrupt, Hold: j.hold}
}

// hold says that a person holds the run before its next step.
func (j *job) hold(r saga.Record) string { return j.snapshot().HeldAt(r) }

// interrupt says that a person has ended it, or that a later intent has won.
func (j *job) interrupt(r saga.Record) error {
	if why := j.snapshot().AbortedBy(r); why != "" {
		return fmt.Errorf("%w: %s", saga.ErrAborted, why)
	}
	if why := j.snapshot().Superseded(r); why != "" {
		return fmt.Errorf("%w: %s", saga.ErrSuperseded, why)
	}
	return nil
}

// snapshot of the service as the mirror has it now.
func (j *job) snapshot() *service.Snapshot { return j.mirror.snapshot(j.service) }

// apply writes for the service, outside of a saga's record.
func (j *job) apply(ctx context.Context, staged ...any) (uint64, error) {
	if j.frees {
		staged = append(staged, essential{})
	}
	return j.led.apply(ctx, staged...)
}

// journal keeps saga records in the store, with the history that they make.
type journal struct{ *job }

// Save implements saga.Journal.
func (n journal) Save(ctx context.Context, r saga.Record, version uint64, staged []any) (uint64, error) {
	before := n.snapshot().Saga(r.ID)
	for _, text := range told(before.Value, r) {
		staged = append(staged, n.event(r, "step", text))
	}
	k := key(service.KindSaga, r.ID)
	if r.Kind == service.WorkDelete && r.State == saga.Done {
		staged = append(staged, drop(k, version)) // nothing of the service is left, not even this
	} else {
		staged = append(staged, put(k, version, r))
	}
	if r.Kind == service.WorkDelete {
		staged = withoutEvents(staged)
	}
	if r.State != saga.Running && r.State != saga.Done {
		staged = append(staged, essential{}) // how an attempt ended, and that it is being undone
	}
	return n.apply(ctx, staged...)
}

// withoutEvents: a teardown erases the history and adds none.
func withoutEvents(staged []any) []any {
	var out []any
	for _, x := range staged {
		if w, ok := x.(store.Write); ok && w.Kind == service.KindEvent && !w.Delete {
			continue
		}
		out = append(out, x)
	}
	return out
}

// Load implements saga.Journal.
func (n journal) Load(ctx context.Context, id string) (saga.Record, uint64, error) {
	var r saga.Record
	d, err := n.c.cfg.Store.Get(ctx, key(service.KindSaga, id))
	if errors.Is(err, store.ErrNotFound) {
		return r, 0, nil
	}
	if err != nil {
		return r, 0, err
	}
	if err := json.Unmarshal(d.Body, &r); err != nil {
		return r, 0, fmt.Errorf("cannot read saga %s: %w", id, err)
	}
	return r, d.Version, n.led.await(ctx, d.Version)
}

// told are the lines of history that lead from one state of a record to the next.
func told(before, after saga.Record) []string {
	var out []string
	for i, s := range after.Steps {
		if s.State == "done" && (i >= len(before.Steps) || before.Steps[i].State != "done") {
			out = append(out, fmt.Sprintf("%s %s: %s", after.Kind, s.Name, s.Text))
		}
	}
	if after.Held != "" && after.Held != before.Held {
		out = append(out, fmt.Sprintf("%s: %s", after.Kind, after.Held))
	}
	if before.State == after.State {
		return out
	}
	switch after.State {
	case saga.Compensating:
		out = append(out, fmt.Sprintf("%s failed at %s: %s", after.Kind, after.FailedStep, after.Error))
	case saga.Waiting:
		out = append(out, fmt.Sprintf("%s waits %s for its next attempt", after.Kind, after.Backoff))
	case saga.Superseded, saga.Failed:
		out = append(out, fmt.Sprintf("%s ended: %s", after.Kind, after.Error))
	}
	return out
}

// event is the write of one line of the service's history.
func (j *job) event(r saga.Record, kind, text string) store.Write {
	e := service.Event{
		Service: j.service, At: time.Now(), Generation: r.Generation,
		Revision: r.Subject, Attempt: r.Attempt, Kind: kind, Text: text,
	}
	return put(key(service.KindEvent, j.service+"."+j.c.mint()), 0, e)
}
