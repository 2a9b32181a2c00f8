package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// errOutage ends a term for a drill: the lead is kept, and nothing is led.
var errOutage = errors.New("control stays away for a drill")

// Absent has this control do nothing as a leader for so long, by its own clock:
// workers, observation and the streams of everybody end, as if its process had,
// while the lead is kept from others. It returns at once; [Control.Present] ends
// it early. It fails as fault.Unavailable where this control does not lead.
func (c *Control) Absent(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.term == nil {
		return fault.New(fault.Unavailable, "", "this control does not lead")
	}
	c.absent = make(chan struct{})
	time.AfterFunc(d, c.returns(c.absent))
	c.term.end(errOutage)
	return nil
}

// returns ends an absence, once.
func (c *Control) returns(over chan struct{}) func() {
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.absent == over && over != nil {
			close(over)
			c.absent = nil
		}
	}
}

// Present ends an absence that lasts still.
func (c *Control) Present() {
	c.mu.Lock()
	over := c.absent
	c.mu.Unlock()
	c.returns(over)()
}

// stayAway keeps the lead until the absence is over, and takes the next epoch:
// what is numbered anew must not be numbered as before. An error says that the
// lead was lost.
func (c *Control) stayAway(ctx context.Context, t *term) (lease, error) {
	c.mu.Lock()
	over := c.absent
	c.mu.Unlock()
	renewed := time.Now()
	for over != nil {
		if !c.cfg.LockIsLease {
			began := time.Now()
			err := t.sayBeat(ctx, t.led.check(), false)
			switch conflict := store.AsConflict(err); {
			case err == nil:
				renewed = began
			case conflict != nil && !t.led.ours(conflict.Stands, t.led.check().Version):
				return lease{}, errDeposed
			case time.Since(renewed) >= c.cfg.Term:
				return lease{}, fmt.Errorf("the lease could not be renewed for %s: %w", c.cfg.Term, err)
			}
		}
		timer := time.NewTimer(min(renewEvery, c.cfg.Term/4))
		select { // it is over, it is time to renew, or the end
		case <-over:
			over = nil
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return lease{}, ctx.Err()
		}
		timer.Stop()
	}
	held, err := c.look(ctx)
	if err != nil {
		return lease{}, err
	}
	if held.epoch.Version != t.led.check().Version {
		return lease{}, errDeposed
	}
	return c.take(ctx, held)
}

// Standings is the one table of who may route by what, of every service of the
// store and of those named beside them; hold says who holds a service's view. Nil
// is not known: this control does not lead.
func (c *Control) Standings(beside []string, hold func(service string) service.Holding) []routing.Standing {
	t := c.current()
	if t == nil {
		return nil
	}
	all := map[string]*service.Snapshot{}
	for _, name := range beside {
		all[name] = &service.Snapshot{Service: name}
	}
	for _, s := range t.mirror.all() {
		all[s.Service] = s
	}
	w := t.world()
	out := make([]routing.Standing, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name].Standing(w, hold(name)))
	}
	return out
}

// IsAbsent says that it stays away.
func (c *Control) IsAbsent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.absent != nil
}
