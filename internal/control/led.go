package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// Records of leadership: the epoch changes only when the lead is taken, the
// beat with each renewal.
var (
	epochKey = store.Key{Kind: service.KindLeader, Name: "epoch"}
	beatKey  = store.Key{Kind: service.KindLeader, Name: "beat"}
)

// leaderEpoch is the record of who leads.
type leaderEpoch struct {
	Number uint64 `json:"number"`
	Nonce  string `json:"nonce"`
	Holder string `json:"holder,omitempty"`
	// Address of the holder's API; may be empty.
	Address string    `json:"address,omitempty"`
	Taken   time.Time `json:"taken"`
}

type leaderBeat struct {
	Nonce string    `json:"nonce"`
	At    time.Time `json:"at"`
	// Released says that the leader of this nonce has ended and does nothing
	// any more: its lease need not run out.
	Released bool `json:"released,omitempty"`
}

var errDeposed = errors.New("another control leads")

// led writes to the store as the leader: every Apply checks that the epoch
// still stands. It is done when the mirror has what it wrote.
type led struct {
	store  store.Store
	mirror *mirror
	mint   func() string
	// holder and address are recorded with the epoch.
	holder, address string
	// lost is called when another is found to lead.
	lost func(error)

	mu      sync.Mutex
	epoch   view.Epoch
	version uint64          // of the epoch's record
	nonces  map[string]bool // :: nonce → ours, in this term
}

// Epoch that commands and tables carry.
func (l *led) Epoch() view.Epoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

func (l *led) check() store.Check {
	l.mu.Lock()
	defer l.mu.Unlock()
	return store.Check{Key: epochKey, Version: l.version}
}

// batch is what one Apply writes.
type batch struct {
	writes    []store.Write
	checks    []store.Check
	essential bool
}

// add takes store.Write, store.Check and essential.
func (b *batch) add(staged ...any) {
	for _, x := range staged {
		switch x := x.(type) {
		case store.Write:
			b.writes = append(b.writes, x)
		case store.Check:
			b.checks = append(b.checks, x)
		case essential:
			b.essential = true
		default:
			panic(fmt.Sprintf("control: %T was staged, which is neither a write nor a check", x))
		}
	}
}

// essential marks a batch that brings the system back to safety.
type essential struct{}

// apply makes the batch durable, in one, and returns its sequence. A conflict
// on anything but the epoch is an error wrapping saga.ErrStale, returned once
// the mirror has seen what stands.
func (l *led) apply(ctx context.Context, staged ...any) (uint64, error) {
	var b batch
	b.add(staged...)
	sequence, err := l.commit(ctx, b)
	if conflict := store.AsConflict(err); conflict != nil {
		if err := l.await(ctx, conflict.Stands.Version); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: %w", saga.ErrStale, err)
	}
	if err != nil {
		return 0, err
	}
	return sequence, l.await(ctx, sequence)
}

// commit is apply without the wait for the mirror, and with conflicts as the
// store gives them.
func (l *led) commit(ctx context.Context, b batch) (uint64, error) {
	for {
		lead := l.check()
		a := store.Apply{ID: l.mint(), Checks: append(b.checks[:len(b.checks):len(b.checks)], lead), Writes: b.writes, Essential: b.essential}
		sequence, err := l.settle(ctx, a)
		conflict := store.AsConflict(err)
		switch {
		case conflict == nil || conflict.Key != epochKey:
			return sequence, err
		case !l.ours(conflict.Stands, lead.Version):
			l.lost(errDeposed)
			return 0, errDeposed
		}
	}
}

// settle repeats an Apply of which it is unknown whether it was done, until it
// is known or ctx ends.
func (l *led) settle(ctx context.Context, a store.Apply) (uint64, error) {
	for {
		res, err := l.store.Apply(ctx, a)
		if !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrGone) {
			return res.Sequence, err // of a store that is gone it will never be known
		}
		pause(ctx, retryOfUnsure)
		if ctx.Err() != nil {
			return 0, err
		}
	}
}

// ours says that the epoch's record changed by this leader itself, since the
// version that a check named, and takes note of it.
func (l *led) ours(stands store.Document, checked uint64) bool {
	var e leaderEpoch
	if stands.Version == 0 || stands.Version == checked || json.Unmarshal(stands.Body, &e) != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.nonces[e.Nonce] {
		return false
	}
	l.version = stands.Version
	l.epoch = view.Epoch{Incarnation: l.store.Incarnation(), Number: e.Number, Nonce: e.Nonce}
	return true
}

// raise takes an epoch above number, without ceasing to lead.
func (l *led) raise(ctx context.Context, number uint64) error {
	l.mu.Lock()
	now, version := l.epoch, l.version
	next := leaderEpoch{Number: max(number, now.Number) + 1, Nonce: l.mint(), Holder: l.holder, Address: l.address, Taken: time.Now()}
	l.nonces[next.Nonce] = true
	l.mu.Unlock()
	sequence, err := l.settle(ctx, store.Apply{ID: l.mint(), Writes: []store.Write{put(epochKey, version, next)}})
	if conflict := store.AsConflict(err); conflict != nil {
		if !l.ours(conflict.Stands, version) {
			l.lost(errDeposed)
			return errDeposed
		}
		return nil // raised by another of our goroutines
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence > l.version {
		l.version = sequence
		l.epoch = view.Epoch{Incarnation: now.Incarnation, Number: next.Number, Nonce: next.Nonce}
	}
	return nil
}

// await returns once the mirror has what was committed at sequence.
func (l *led) await(ctx context.Context, sequence uint64) error {
	for {
		at, changed := l.mirror.reached()
		if at >= sequence {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put writes v over what stood at version; zero means that nothing stood.
func put(key store.Key, version uint64, v any) store.Write {
	b, err := json.Marshal(v)
	if err != nil { // our records hold nothing that JSON cannot say
		panic("control: cannot encode " + key.String() + ": " + err.Error())
	}
	return store.Write{Key: key, Expect: version, Body: b}
}

func drop(key store.Key, version uint64) store.Write {
	return store.Write{Key: key, Expect: version, Delete: true}
}

func key(kind, name string) store.Key { return store.Key{Kind: kind, Name: name} }

func putRevision(d service.Doc[service.Revision]) store.Write {
	return put(key(service.KindRevision, d.Value.Name), d.Version, d.Value)
}

func putCatalog(d service.Doc[service.Catalog]) store.Write {
	return put(key(service.KindCatalog, d.Value.Service), d.Version, d.Value)
}

// checkDoc binds an Apply to what was read and is not written.
func checkDoc[T any](kind, name string, d service.Doc[T]) store.Check {
	return store.Check{Key: key(kind, name), Version: d.Version}
}
