package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

type result struct {
	name string
	err  error
}

// check is one named condition. A run that hangs is not started a second time:
// it is waited for, and named, until it returns.
type check struct {
	name string
	run  func() error

	mu      sync.Mutex
	pending chan struct{} // closed when the run ends; nil when none is under way
	since   time.Time
	last    error // of the run that closed pending
}

func (o *Ops) results() []result {
	o.mu.Lock()
	checks := slices.Clone(o.checks)
	o.mu.Unlock()
	out := make([]result, len(checks))
	deadline := time.NewTimer(checkTimeout)
	defer deadline.Stop()
	expired := false
	waits := make([]<-chan struct{}, len(checks))
	for i, c := range checks {
		waits[i] = c.start()
	}
	for i, c := range checks {
		if !expired {
			select {
			case <-waits[i]:
			case <-deadline.C:
				expired = true
			}
		}
		out[i] = result{c.name, c.outcome(waits[i])}
	}
	return out
}

// start begins a run, or joins the one that is under way.
func (c *check) start() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != nil {
		return c.pending
	}
	done := make(chan struct{})
	c.pending, c.since = done, time.Now()
	go func() {
		err := c.guarded()
		c.mu.Lock()
		c.last, c.pending = err, nil
		c.mu.Unlock()
		close(done)
	}()
	return done
}

// guarded keeps a panicking check from ending the process that it reports on.
func (c *check) guarded() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the check itself failed: %v", p)
		}
	}()
	if c.run == nil {
		return errors.New("the check does nothing")
	}
	return c.run()
}

func (c *check) outcome(done <-chan struct{}) error {
	select {
	case <-done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.last
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("no answer for %s", time.Since(c.since).Round(time.Second))
	}
}
