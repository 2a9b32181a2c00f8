package saga

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Journal keeps records. Its methods are called by one goroutine per saga.
type Journal interface {
	// Save makes r and what is staged with it durable in one, bound to the
	// version that was read (zero: the record must not exist), and returns
	// the version that now stands.
	Save(ctx context.Context, r Record, version uint64, staged []any) (uint64, error)
	// Load returns what stands; version zero when nothing does.
	Load(ctx context.Context, id string) (Record, uint64, error)
}

// Engine drives sagas. Its fields are set once.
type Engine struct {
	Journal Journal
	// Now is shown in records and measures what steps took.
	Now func() time.Time
	// Interrupt returns why a run is to end at its next wait, or nil; nil never does.
	Interrupt func(Record) error
	// Hold says why a run is to stop before the step that it is at, or nothing;
	// nil never does. The first step of a new saga is never held.
	Hold func(Record) string
	// First and Max bound the wait after a failed attempt, which doubles.
	// Zero means 30 s and 10 min.
	First, Max time.Duration
}

// Drive takes the record as far as it gets: to its end, or to a failed attempt
// that waits. Version is that of rec in the journal, zero for a new saga. It
// returns the record as it now stands, and:
//
//   - nil when the saga is done, waits, or ended otherwise: its State says
//     which; or when a person holds it: it is Running, and its Held says so;
//   - an error wrapping ErrParked when it cannot be driven by this program;
//   - ctx's error when the run was cut: nothing is undone, and a later Drive resumes;
//   - any other error when what became of it could not be recorded, or when its
//     compensation could not be completed (State is Compensating).
func (e *Engine) Drive(ctx context.Context, d Definition, rec Record, version uint64) (Record, error) {
	rec, err := d.Adopt(rec)
	if err != nil {
		return rec, err
	}
	// A copy: the record that was given may be what others look at.
	r := &Run{Record: rec.clone(), version: version, engine: e}
	switch rec.State {
	case Running, Waiting:
		return e.attempt(ctx, d, r)
	case Compensating:
		return e.compensate(ctx, d, r, errors.New(rec.Error), nil)
	case Parked:
		return rec, fmt.Errorf("%w: saga %s: %s", ErrParked, rec.ID, rec.Error)
	}
	return rec, nil
}

func (e *Engine) attempt(ctx context.Context, d Definition, r *Run) (Record, error) {
	// What is to end is not resumed first: its world is only looked at to undo it.
	if err := r.Interrupted(); err != nil {
		return e.fail(ctx, d, r, err)
	}
	if r.version > 0 {
		if err := e.resume(ctx, d, r); err != nil {
			return e.fail(ctx, d, r, err)
		}
	} else {
		r.Record.Started = e.Now()
	}
	for r.step = range d.Steps {
		if r.Record.Steps[r.step].State == stepDone {
			continue
		}
		if held, err := e.held(ctx, r); held || err != nil {
			return r.Record, err
		}
		if err := e.do(ctx, d, r); err != nil {
			return e.fail(ctx, d, r, err)
		}
	}
	return r.Record, nil
}

// held says that the run stops here, and has the record say why.
func (e *Engine) held(ctx context.Context, r *Run) (bool, error) {
	if e.Hold == nil || r.version == 0 || r.Interrupted() != nil {
		return false, nil
	}
	why := e.Hold(r.Record)
	said := r.Record.Held
	r.Record.Held = why
	if why == "" || why == said {
		return why != "", nil
	}
	if err := e.save(ctx, r); err != nil {
		return true, fmt.Errorf("cannot record that saga %s is held: %w", r.Record.ID, err)
	}
	return true, nil
}

// triesOfStale is how often a step is done whose completion was bound to what
// changes meanwhile.
const triesOfStale = 5

// do runs the step in hand and records its completion, in one with the
// beginning of the next.
func (e *Engine) do(ctx context.Context, d Definition, r *Run) error {
	var err error
	for range triesOfStale {
		if err = e.once(ctx, d, r); !errors.Is(err, ErrStale) {
			return err
		}
		r.staged = nil
	}
	return err
}

func (e *Engine) once(ctx context.Context, d Definition, r *Run) error {
	if err := r.Interrupted(); err != nil {
		return err
	}
	e.begin(&r.Record.Steps[r.step])
	if err := d.Steps[r.step].Do(ctx, r); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	before := r.Record.clone()
	r.complete(e)
	if d.Steps[r.step].Quiet && len(r.staged) == 0 && r.Record.State == Running {
		return nil
	}
	if err := e.save(ctx, r); err != nil {
		r.Record = before
		return fmt.Errorf("cannot record step %s: %w", before.Steps[r.step].Name, err)
	}
	return nil
}

// complete marks the step in hand done, and begins the next or ends the saga.
func (r *Run) complete(e *Engine) {
	rec, now := &r.Record, e.Now()
	s := &rec.Steps[r.step]
	s.State, s.Took = stepDone, now.Sub(s.Began)
	if r.step+1 < len(rec.Steps) {
		e.begin(&rec.Steps[r.step+1])
		return
	}
	rec.State, rec.Ended = Done, now
	rec.Error, rec.FailedStep, rec.LastLines = "", "", nil
	rec.RetryAt, rec.Backoff = time.Time{}, 0
}

func (e *Engine) begin(s *Step) {
	if s.State != stepRunning || s.Began.IsZero() {
		*s = Step{Name: s.Name, State: stepRunning, Began: e.Now()}
	}
}

// resume brings a record that has begun to where it can go on: done steps
// whose effects no longer stand are done again, with all after them.
func (e *Engine) resume(ctx context.Context, d Definition, r *Run) error {
	fresh := r.Record.State == Waiting
	if fresh {
		r.Record.State = Running
		r.Record.Attempt++
		r.Record.RetryAt = time.Time{}
		r.Record.Effects = nil
	}
	if d.Resume != nil {
		if err := d.Resume(ctx, r); err != nil {
			return err
		}
	}
	back, err := e.rewind(ctx, d, r)
	if err != nil {
		return err
	}
	if !fresh && !back {
		return nil
	}
	if i := r.next(); i < len(r.Record.Steps) {
		e.begin(&r.Record.Steps[i])
	}
	return e.save(ctx, r)
}

// rewind takes back the record of steps whose effects do not stand.
func (e *Engine) rewind(ctx context.Context, d Definition, r *Run) (bool, error) {
	n := r.next()
	for i := range n {
		look := d.Steps[i].Stands
		if look == nil {
			continue
		}
		r.step = i
		stands, err := look(ctx, r)
		if err != nil {
			return false, fmt.Errorf("cannot look at step %s again: %w", d.Steps[i].Name, err)
		}
		if !stands {
			for j := i; j < len(r.Record.Steps); j++ {
				r.Record.Steps[j] = Step{Name: d.Steps[j].Name}
			}
			return true, nil
		}
	}
	// What failed last time begins anew.
	for j := n; j < len(r.Record.Steps); j++ {
		if r.Record.Steps[j].State == stepFailed {
			r.Record.Steps[j] = Step{Name: d.Steps[j].Name}
		}
	}
	return false, nil
}

// next is the index of the first step that is not done.
func (r *Run) next() int {
	for i, s := range r.Record.Steps {
		if s.State != stepDone {
			return i
		}
	}
	return len(r.Record.Steps)
}

// save makes the record durable with what is staged.
func (e *Engine) save(ctx context.Context, r *Run) error {
	v, err := e.Journal.Save(ctx, r.Record.clone(), r.version, r.staged)
	if err != nil {
		return err
	}
	r.version, r.staged = v, nil
	return nil
}
