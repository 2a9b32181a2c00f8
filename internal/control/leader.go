package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// lease is the lead as it was taken.
type lease struct {
	epoch   view.Epoch
	version uint64
	taken   time.Time // when its taking was begun, by our monotonic clock
}

// campaign stands by until the lead is taken, or returns an error.
func (c *Control) campaign(ctx context.Context) (lease, error) {
	var seen sighting
	for {
		began := time.Now()
		held, err := c.look(ctx)
		if err != nil {
			return lease{}, err
		}
		quiet := seen.unchanged(held, began)
		c.setOther(leaderOf(held), seen.since)
		if held.epoch.Version == 0 || c.cfg.LockIsLease || quiet >= c.cfg.Term || held.released() {
			l, err := c.take(ctx, held)
			if store.AsConflict(err) == nil {
				return l, err
			}
			seen = sighting{} // somebody else was quicker, or beats again
		}
		pause(ctx, c.cfg.Term/5)
		if ctx.Err() != nil {
			return lease{}, ctx.Err()
		}
	}
}

// standing is what the store says of the lead.
type standing struct {
	epoch, beat store.Document // of version zero when there is none
}

// leaderOf names who holds the lease; who it is does not matter to its taking.
func leaderOf(h standing) Leader {
	var e leaderEpoch
	if h.epoch.Version == 0 || json.Unmarshal(h.epoch.Body, &e) != nil {
		return Leader{}
	}
	return Leader{Holder: e.Holder, Address: e.Address}
}

// released says that who took the epoch has given it up.
func (h standing) released() bool {
	var e leaderEpoch
	var b leaderBeat
	if h.beat.Version == 0 || json.Unmarshal(h.epoch.Body, &e) != nil || json.Unmarshal(h.beat.Body, &b) != nil {
		return false
	}
	return b.Released && b.Nonce == e.Nonce
}

// sighting is since when a candidate has seen the same.
type sighting struct {
	epoch, beat uint64
	since       time.Time
}

// unchanged is for how long the same was seen, looked at from now on.
func (s *sighting) unchanged(h standing, at time.Time) time.Duration {
	if s.since.IsZero() || s.epoch != h.epoch.Version || s.beat != h.beat.Version {
		// Counted from after the look: what was seen may have been written during it.
		*s = sighting{epoch: h.epoch.Version, beat: h.beat.Version, since: time.Now()}
		return 0
	}
	return at.Sub(s.since)
}

func (c *Control) look(ctx context.Context) (standing, error) {
	var h standing
	var err error
	if h.epoch, err = get(ctx, c.cfg.Store, epochKey); err != nil {
		return h, err
	}
	h.beat, err = get(ctx, c.cfg.Store, beatKey)
	return h, err
}

func get(ctx context.Context, s store.Store, k store.Key) (store.Document, error) {
	d, err := s.Get(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return store.Document{}, nil
	}
	if err != nil {
		return d, fmt.Errorf("cannot read %s: %w", k, err)
	}
	return d, nil
}

// take writes the next epoch, bound to what was seen.
func (c *Control) take(ctx context.Context, h standing) (lease, error) {
	var old leaderEpoch
	if h.epoch.Version != 0 {
		// An epoch that cannot be read is counted from its version: no epoch
		// is ever above the sequence of the commit that wrote it.
		if err := json.Unmarshal(h.epoch.Body, &old); err != nil {
			old.Number = h.epoch.Version
		}
	}
	next := leaderEpoch{Number: old.Number + 1, Nonce: c.mint(), Holder: c.cfg.Name, Address: c.cfg.Address, Taken: time.Now()}
	l := lease{taken: time.Now()}
	writer := led{store: c.cfg.Store}
	sequence, err := writer.settle(ctx, store.Apply{
		ID:     c.mint(),
		Checks: []store.Check{{Key: beatKey, Version: h.beat.Version}},
		Writes: []store.Write{put(epochKey, h.epoch.Version, next)},
	})
	if err != nil {
		return l, err
	}
	l.version = sequence
	l.epoch = view.Epoch{Incarnation: c.cfg.Store.Incarnation(), Number: next.Number, Nonce: next.Nonce}
	return l, nil
}

// beat renews the lease each second, and ends the term when it could not for
// as long as a candidate waits.
func (t *term) beat(ctx context.Context, taken time.Time) {
	if t.c.cfg.LockIsLease {
		return // nobody else can have the store open
	}
	renewed := taken
	for ctx.Err() == nil {
		began := time.Now()
		left := t.c.cfg.Term - began.Sub(renewed)
		if left <= 0 {
			t.end(fmt.Errorf("the lease could not be renewed for %s", t.c.cfg.Term))
			return
		}
		once, cancel := context.WithTimeout(ctx, left)
		err := t.renew(once)
		cancel()
		if err == nil {
			renewed = began
		} else if ctx.Err() == nil {
			t.c.log.Warn("cannot renew the lease", "error", err)
		}
		pause(ctx, min(renewEvery, t.c.cfg.Term/4))
	}
}

func (t *term) renew(ctx context.Context) error {
	lead := t.led.check()
	// Not repeated when unknown: the next beat is another.
	err := t.sayBeat(ctx, lead, false)
	if conflict := store.AsConflict(err); conflict != nil && !t.led.ours(conflict.Stands, lead.Version) {
		t.end(errDeposed)
	}
	return err
}

func (t *term) sayBeat(ctx context.Context, lead store.Check, released bool) error {
	w := put(beatKey, 0, leaderBeat{Nonce: t.led.Epoch().Nonce, At: time.Now(), Released: released})
	w.Any = true
	_, err := t.c.cfg.Store.Apply(ctx, store.Apply{ID: t.c.mint(), Checks: []store.Check{lead}, Writes: []store.Write{w}})
	return err
}

// release gives the lease up, so that another takes it at its next look. It is
// called when nothing of the term runs any more, and does not wait for long:
// a lease that could not be given up runs out.
func (t *term) release(ctx context.Context) {
	if t.c.cfg.LockIsLease {
		return // who opens the store next leads at once
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
	defer cancel()
	if err := t.sayBeat(ctx, t.led.check(), true); err != nil {
		t.c.log.Warn("the lease could not be given up and runs out", "error", err)
	}
}
