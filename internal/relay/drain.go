package relay

import (
	"context"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/admission"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
)

const (
	// gone is how long the last goodbyes may take to arrive.
	gone = 2 * time.Second
	// atOnce is over how long a small number is said goodbye to.
	atOnce = time.Second
)

// Drain sends every subscriber elsewhere, no faster than the other doors admit
// them, within the time that ctx leaves. Nobody else is served here from then on.
func (r *Relay) Drain(ctx context.Context) {
	r.mu.Lock()
	r.draining = true
	r.mu.Unlock()
	signal(r.say) // control names this relay to nobody any more
	d := r.server.Doors()
	others := slices.DeleteFunc(slices.Clone(d.Relays), func(a string) bool { return a == r.cfg.Address })
	n := r.server.Connected()
	over := drainTime(n, d)
	r.cfg.Log.Info("subscribers are sent elsewhere", "subscribers", n, "over", over, "others", others)
	r.server.Drain(ctx, over, others)
	timer := time.NewTimer(gone)
	defer timer.Stop()
	for tick := time.NewTicker(10 * time.Millisecond); !r.server.Left(); {
		select { // some still leave, or have had their time
		case <-tick.C:
			continue
		case <-timer.C:
		}
		tick.Stop()
		return
	}
}

// drainTime is over how long so many go, so that the other doors admit each at
// once.
func drainTime(n int, d views.Doors) time.Duration {
	if n <= admission.Floor {
		return atOnce
	}
	each := max(1, d.Share) * max(1, len(d.Relays)) // of these this relay is one, and control is another
	return max(atOnce, time.Duration(n)*admission.Window/time.Duration(each))
}
