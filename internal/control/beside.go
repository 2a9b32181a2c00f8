package control

import (
	"context"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// Lead is one term of leading as what runs beside the workers sees it. Its
// methods may be called by several at once.
type Lead interface {
	Epoch() view.Epoch
	// Commit writes in one, bound to the epoch: an error means that nothing
	// was written, or that it is not known. Without writes it asks whether
	// this control leads still.
	Commit(ctx context.Context, writes []store.Write) error
	// Routes that are published, and the sequence of the last change of any.
	Routes() ([]view.Route, uint64)
	// RoutesChanged is closed at the next change of any of them.
	RoutesChanged() <-chan struct{}
	// Sequence of the store that has been seen.
	Sequence() uint64
	// Knows says whether any record of the service is left.
	Knows(service string) bool
	// Lives says that the service is wanted: it is there, and not being deleted.
	Lives(service string) bool
	// Leaving are slots of the service that are to stop, by record: an order to may
	// be on its way.
	Leaving(service string) []string
	// Retired says that a person ended the host's membership.
	Retired(host string) bool
	// ReadyPath is the path at which the revision says that it is ready; empty
	// is none.
	ReadyPath(service, revision string) string
}

type beside struct{ t *term }

// Epoch implements Lead.
func (b beside) Epoch() view.Epoch { return b.t.led.Epoch() }

// Commit implements Lead.
func (b beside) Commit(ctx context.Context, writes []store.Write) error {
	_, err := b.t.led.commit(ctx, batch{writes: writes})
	return err
}

// Routes implements Lead.
func (b beside) Routes() ([]view.Route, uint64) { return b.t.mirror.fold() }

// RoutesChanged implements Lead.
func (b beside) RoutesChanged() <-chan struct{} { return b.t.mirror.routesChanged() }

// Sequence implements Lead.
func (b beside) Sequence() uint64 {
	at, _ := b.t.mirror.reached()
	return at
}

// Knows implements Lead.
func (b beside) Knows(service string) bool { return !b.t.mirror.snapshot(service).Empty() }

// Lives implements Lead.
func (b beside) Lives(service string) bool {
	d := b.t.mirror.snapshot(service).Desired
	return d.Exists() && !d.Value.Deleted
}

// Leaving implements Lead.
func (b beside) Leaving(service string) (slots []string) {
	for _, r := range b.t.mirror.snapshot(service).Revisions {
		for _, s := range r.Value.Leaving {
			slots = append(slots, s.ID)
		}
	}
	return slots
}

// Retired implements Lead.
func (b beside) Retired(host string) bool { return b.t.mirror.retired(host) }

// ReadyPath implements Lead.
func (b beside) ReadyPath(service, revision string) string {
	return b.t.mirror.snapshot(service).Revision(revision).Value.Template.ReadyPath
}
