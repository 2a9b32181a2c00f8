package saga

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// States of a step.
const (
	stepRunning = "running"
	stepDone    = "done"
	stepFailed  = "failed"
)

// Bounds of the wait between attempts, where an engine does not set its own.
const (
	DefaultFirst = 30 * time.Second
	DefaultMax   = 10 * time.Minute
)

// fail ends an attempt: recorded, then undone by looking at the world, whether
// or not the record could be written.
func (e *Engine) fail(ctx context.Context, d Definition, r *Run, cause error) (Record, error) {
	r.staged = nil // it belonged to a completion that did not come
	if ctx.Err() != nil {
		return r.Record, ctx.Err()
	}
	if r.version == 0 {
		return r.Record, cause
	}
	if stands, over, err := e.overtaken(ctx, r); err == nil && over {
		return stands, fmt.Errorf("saga %s was written by another: %w", r.Record.ID, cause)
	}
	r.describe(cause)
	r.Record.State = Compensating
	saved := e.save(ctx, r)
	return e.compensate(ctx, d, r, cause, saved)
}

// overtaken looks whether the journal holds something else than what this run
// last saved: then what stands there counts, and nothing is undone on the word
// of this run.
func (e *Engine) overtaken(ctx context.Context, r *Run) (Record, bool, error) {
	stands, version, err := e.Journal.Load(ctx, r.Record.ID)
	if err != nil {
		return Record{}, false, err
	}
	return stands, version != r.version, nil
}

// describe writes down why the attempt failed.
func (r *Run) describe(cause error) {
	rec := &r.Record
	rec.Error, rec.FailedStep, rec.LastLines = cause.Error(), rec.At(), nil
	if i := r.next(); i < len(rec.Steps) {
		rec.Steps[i].State, rec.Steps[i].Text = stepFailed, rec.Error
	}
	var f *Failure
	if errors.As(cause, &f) {
		rec.LastLines = f.LastLines
	}
}

// compensate undoes, last step first, by looking. The first undo that fails
// ends it: what comes before it stays as it is.
func (e *Engine) compensate(ctx context.Context, d Definition, r *Run, cause, saved error) (Record, error) {
	if i := r.Interrupted(); i != nil {
		cause = i // a later intent won meanwhile
		r.Record.Error = i.Error()
	}
	undone := e.undo(ctx, d, r)
	if ctx.Err() != nil {
		return r.Record, ctx.Err()
	}
	r.settle(e, d, cause, undone)
	if err := e.save(ctx, r); err != nil {
		return r.Record, fmt.Errorf("cannot record how saga %s ended: %w", r.Record.ID, errors.Join(err, saved, cause))
	}
	if undone != nil {
		return r.Record, fmt.Errorf("cannot undo what saga %s did: %w", r.Record.ID, undone)
	}
	return r.Record, nil
}

func (e *Engine) undo(ctx context.Context, d Definition, r *Run) error {
	for i := len(d.Steps) - 1; i >= 0; i-- {
		s := d.Steps[i]
		if s.Undo == nil {
			continue
		}
		r.step = i
		if err := s.Undo(ctx, r); err != nil {
			return fmt.Errorf("cannot undo %s: %w", s.Name, err)
		}
	}
	return nil
}

// settle decides the state that the attempt ends in.
func (r *Run) settle(e *Engine, d Definition, cause, undone error) {
	rec := &r.Record
	now := e.Now()
	switch {
	case undone != nil:
		rec.State = Compensating
		rec.Effects = withEffect(rec.Effects, "undo", undone.Error())
		r.wait(e, now)
		return
	case errors.Is(cause, ErrSuperseded):
		rec.State, rec.Ended = Superseded, now
	case errors.Is(cause, ErrAborted):
		rec.State, rec.Ended = Failed, now
	default:
		rec.State = Waiting
		r.wait(e, now)
	}
	delete(rec.Effects, "undo")
	if rec.State != Waiting {
		rec.RetryAt, rec.Backoff = time.Time{}, 0
	}
	if d.Ending != nil {
		d.Ending(r, rec.State)
	}
}

func (r *Run) wait(e *Engine, now time.Time) {
	first, most := e.First, e.Max
	if first == 0 {
		first = DefaultFirst
	}
	if most == 0 {
		most = DefaultMax
	}
	next := min(2*r.Record.Backoff, most)
	r.Record.Backoff = max(next, first)
	r.Record.RetryAt = now.Add(r.Record.Backoff)
}

func withEffect(m map[string]string, name, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[name] = value
	return m
}
