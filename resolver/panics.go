package resolver

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// panics counts those that were caught: a defect here must not end the program
// that picks by it.
type panics struct {
	n    atomic.Uint64
	last atomic.Value // string
}

// catch runs f and says whether it panicked.
func (p *panics) catch(what string, f func()) (caught bool) {
	defer func() {
		if x := recover(); x != nil {
			p.n.Add(1)
			p.last.Store(fmt.Sprintf("%s: %v\n%s", what, x, debug.Stack()))
			caught = true
		}
	}()
	f()
	return false
}

// again runs f until it returns by itself or ctx ends.
func (p *panics) again(ctx context.Context, what string, f func()) {
	for p.catch(what, f) && ctx.Err() == nil {
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// text of the last one; empty where there was none.
func (p *panics) text() string {
	s, _ := p.last.Load().(string)
	return s
}
