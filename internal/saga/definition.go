package saga

import (
	"context"
	"errors"
	"fmt"
)

// Definition is what a kind of saga does, in order. It is immutable.
type Definition struct {
	Kind string
	// Version rises when the meaning of a record changes. A record of a newer
	// version is parked; one of an older version goes through Upgrade.
	Version int
	Steps   []StepDefinition
	// Resume re-establishes what a resume stands on, before anything is looked
	// at: it is called once when a record that has begun is driven again.
	Resume func(ctx context.Context, r *Run) error
	// Ending stages what belongs with the end of an attempt, in the state that
	// it ends in (Waiting, Superseded or Failed). A saga that is done stages
	// it with its last step. Nil stages nothing.
	Ending func(r *Run, s State)
	// Upgrade maps a record of an older version. Nil parks such records.
	Upgrade func(Record) (Record, error)
}

// StepDefinition says how one step is done, looked at again, and undone.
type StepDefinition struct {
	Name string
	// Do brings the step's effect about. It may be called again after it was
	// done, or half done, and then does it once.
	Do func(ctx context.Context, r *Run) error
	// Stands looks at the world: whether the effect is there now. Before a
	// resume, a done step whose effect does not stand is done again, with all
	// after it. Nil takes the record's word.
	Stands func(ctx context.Context, r *Run) (bool, error)
	// Undo looks at the world and takes back what the saga did there, and no
	// more. It is called whatever the record says of the step, and may be
	// called again after it was done.
	Undo func(ctx context.Context, r *Run) error
	// Quiet steps are done again in no time: the completion of one that stages
	// nothing is recorded with the next save.
	Quiet bool
	// NoUndo says why there is nothing to undo. Exactly one of Undo and NoUndo is set.
	NoUndo string
}

// Errors that say what became of a run.
var (
	// ErrStale: what a completion staged was bound to something that has
	// changed since, and nothing was written. A Journal's error wraps it once
	// the change can be seen, and the step is done again.
	ErrStale = errors.New("something it was bound to has changed")
	// ErrParked: the record is of an unknown kind, or of another version of
	// its definition that cannot be mapped. Nothing was done.
	ErrParked = errors.New("parked")
	// ErrSuperseded: a later intent won. An Interrupt's error wraps it.
	ErrSuperseded = errors.New("superseded")
	// ErrAborted: a person ended it. An Interrupt's error wraps it.
	ErrAborted = errors.New("aborted")
)

// Failure is a step's error with what a person needs to see beside it.
type Failure struct {
	Reason    string
	LastLines []string
}

func (f *Failure) Error() string { return f.Reason }

// New returns the record of a saga that has not begun.
func (d Definition) New(id Identity, generation int32) Record {
	r := Record{
		ID: id.String(), Kind: d.Kind, Definition: d.Version, Owner: id.Owner, Subject: id.Subject,
		Generation: generation, Attempt: 1, State: Running,
	}
	for _, s := range d.Steps {
		r.Steps = append(r.Steps, Step{Name: s.Name})
	}
	return r
}

// Adopt returns r as this definition can drive it, or an error wrapping ErrParked.
func (d Definition) Adopt(r Record) (Record, error) {
	switch {
	case r.Kind != d.Kind:
		return r, fmt.Errorf("%w: saga %s is of kind %q, which this program does not know", ErrParked, r.ID, r.Kind)
	case r.Definition > d.Version:
		return r, fmt.Errorf("%w: saga %s was written by version %d of the %s definition, this program knows version %d", ErrParked, r.ID, r.Definition, d.Kind, d.Version)
	case r.Definition < d.Version && d.Upgrade == nil:
		return r, fmt.Errorf("%w: saga %s was written by version %d of the %s definition, and version %d cannot map it", ErrParked, r.ID, r.Definition, d.Kind, d.Version)
	case r.Definition < d.Version:
		mapped, err := d.Upgrade(r)
		if err != nil {
			return r, fmt.Errorf("%w: cannot map saga %s from version %d: %w", ErrParked, r.ID, r.Definition, err)
		}
		r = mapped
		r.Definition = d.Version
	}
	return r, d.checkSteps(r)
}

// checkSteps refuses a record whose steps are not those of the definition.
func (d Definition) checkSteps(r Record) error {
	if len(r.Steps) != len(d.Steps) {
		return fmt.Errorf("%w: saga %s has %d steps, its definition %d", ErrParked, r.ID, len(r.Steps), len(d.Steps))
	}
	for i, s := range r.Steps {
		if s.Name != d.Steps[i].Name {
			return fmt.Errorf("%w: step %q of saga %s is not known", ErrParked, s.Name, r.ID)
		}
	}
	return nil
}

// Check says what a definition lacks. Owners call it in a test.
func (d Definition) Check() error {
	if d.Kind == "" || d.Version < 1 || len(d.Steps) == 0 {
		return errors.New("a definition needs a kind, a version and steps")
	}
	for _, s := range d.Steps {
		if s.Name == "" || s.Do == nil || (s.Undo == nil) == (s.NoUndo == "") {
			return fmt.Errorf("step %q of %s needs a name, a Do, and either an Undo or a reason why there is none", s.Name, d.Kind)
		}
	}
	return nil
}
