package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// members hands the known gateways to the hosts under the epoch that is led in.
// The leader names them before it says which epoch that is, and may take a
// higher one later: hosts obey a list of no lower epoch than they have kept.
type members struct {
	changed chan struct{} // has room for one

	mu    sync.Mutex
	known []service.Gateway // nil until the leader named them
}

// epochEvery is how often the epoch is looked at; it changes without a signal.
const epochEvery = 50 * time.Millisecond

func (m *members) set(known []service.Gateway) {
	m.mu.Lock()
	m.known = append([]service.Gateway{}, known...)
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default: // it is to be looked at already
	}
}

// tell runs until ctx ends.
func (m *members) tell(ctx context.Context, epoch func() view.Epoch, to func(view.Epoch, []service.Gateway)) error {
	var told view.Epoch
	tick := time.NewTicker(epochEvery)
	defer tick.Stop()
	dirty := false
	for {
		select { // the end, another list, or perhaps another epoch
		case <-ctx.Done():
			return nil
		case <-m.changed:
			dirty = true
		case <-tick.C:
		}
		now := epoch()
		if now.Zero() || !dirty && now == told {
			continue
		}
		m.mu.Lock()
		known := m.known
		m.mu.Unlock()
		if known == nil {
			continue
		}
		to(now, known)
		told, dirty = now, false
	}
}
