package saga

import (
	"context"
	"fmt"
)

// Run is one saga being driven. It is used by one goroutine.
type Run struct {
	// Record as far as it has got. Steps change Effects and Subject only,
	// through the methods.
	Record Record
	// version of the record in the journal; zero before its first save.
	version uint64
	staged  []any
	step    int
	engine  *Engine
}

// Text sets what the step in hand says to people. It becomes durable with the
// next save.
func (r *Run) Text(format string, args ...any) {
	r.Record.Steps[r.step].Text = fmt.Sprintf(format, args...)
}

// Stage adds what the journal makes durable in one with the record's next save.
func (r *Run) Stage(x ...any) { r.staged = append(r.staged, x...) }

// Effect notes an effect that this attempt caused; it becomes durable with the next save.
func (r *Run) Effect(name, value string) {
	if r.Record.Effects == nil {
		r.Record.Effects = map[string]string{} // :: effect → what it was
	}
	r.Record.Effects[name] = value
}

// Checkpoint saves the record with what is staged, amid a step.
func (r *Run) Checkpoint(ctx context.Context) error { return r.engine.save(ctx, r) }

// Interrupted returns why the run is to end at this wait, or nil. The error
// wraps ErrSuperseded or ErrAborted.
func (r *Run) Interrupted() error {
	if r.engine.Interrupt == nil {
		return nil
	}
	return r.engine.Interrupt(r.Record)
}

// Version of the record in the journal; zero before its first save.
func (r *Run) Version() uint64 { return r.version }
