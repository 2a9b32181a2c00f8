package views

import (
	"slices"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/view"
)

// topic is one service's views: the newest, and earlier ones that subscribers
// may come back with.
type topic struct {
	// mu guards frames, the ledger and what holders acknowledged, where the
	// server's lock is held for reading.
	mu sync.Mutex

	newest   *view.Service
	digest   view.Digest   // of newest
	at       time.Duration // when newest was published
	recent   []retained    // the newest is last
	frames   map[frameKey]*frame
	holders  holders
	barred   map[*subscriber]struct{} // that hold nothing, by its policy
	ledger   budget.Ledger
	callers  int                 // who routes by it: subscribers, and those of relays
	departed map[string]departed // :: key of who left a moment ago → what it held
	swept    time.Duration       // when those who left long ago were taken from it
}

type retained struct {
	view   *view.Service
	digest view.Digest
	nature view.Nature   // of the way from the one before
	at     time.Duration // when it was published
}

const (
	// mostRecent views of a service are kept, and mostEndpoints of them
	// together: who comes back with an older one is sent everything.
	mostRecent    = 64
	mostEndpoints = 50_000
)

func (t *topic) publish(v *view.Service, digest view.Digest, nature view.Nature, now time.Duration) {
	t.newest, t.digest, t.at = v, digest, now
	t.recent = append(t.recent, retained{v, digest, nature, now})
	kept, endpoints := 0, 0
	for _, r := range slices.Backward(t.recent) {
		if endpoints += len(r.view.Endpoints); kept > 0 && (kept == mostRecent || endpoints > mostEndpoints) {
			break
		}
		kept++
	}
	t.recent = slices.Clone(t.recent[len(t.recent)-kept:])
	clear(t.frames)
}

// base is the view that a subscriber says it holds; nil where its content is
// not at hand. Who holds the content of the newest needs only the new number.
func (t *topic) base(v view.Version, digest view.Digest) *view.Service {
	if v.Zero() || v.Against(t.newest.Version) == view.Foreign || v.Against(t.newest.Version) == view.Newer {
		return nil
	}
	if digest == t.digest {
		same := *t.newest
		same.Version = v
		return &same
	}
	for _, r := range t.recent {
		if r.view.Version == v && r.digest == digest {
			return r.view
		}
	}
	return nil
}

// frame is the change from a view that is at hand, or from nothing.
func (t *topic) frame(base *view.Service, digest view.Digest, under view.Epoch) *frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := frameKey{}
	if base != nil {
		key = frameKey{base.Version, digest}
	}
	f := t.frames[key]
	if f == nil {
		f = &frame{base: base, to: t.newest, under: under, nature: t.nature(base)}
		t.frames[key] = f
	}
	return f
}

// nature of the way from a view to the newest.
func (t *topic) nature(base *view.Service) (n view.Nature) {
	if base == nil {
		return view.Adds
	}
	for _, r := range slices.Backward(t.recent) {
		if r.view.Version.Against(base.Version) != view.Newer {
			break
		}
		n |= r.nature
	}
	return n
}
