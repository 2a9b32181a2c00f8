package control

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// watchHosts notices at once which hosts leave, have left or take no more
// instances, so that what they run need not wait for the next whole pass; and
// it lets those end that leave, once nothing keeps them.
func (t *term) watchHosts(ctx context.Context) {
	seen := ""
	for ctx.Err() == nil {
		changed := t.c.cfg.Hosts.Changed()
		states := t.c.cfg.Hosts.States()
		if now := whatHostsTake(states); now != seen {
			seen = now
			t.mirror.markAll()
			t.poke()
		}
		t.letGo(ctx, states)
		pause(ctx, settleEvery) // reports come in many small pieces
		waits, cancel := context.WithTimeout(ctx, memberEvery)
		select {
		case <-changed:
		case <-waits.Done():
		}
		cancel()
	}
}

// whatHostsTake tells apart what hosts say of what they take.
func whatHostsTake(states []service.HostState) string {
	var b strings.Builder
	for _, h := range states {
		if h.Leaving || h.Left || h.Refuses != "" {
			fmt.Fprintf(&b, "%s %v %v %v\n", h.Name, h.Leaving, h.Left, h.Refuses != "")
		}
	}
	return b.String()
}

// letGo lets hosts end that leave and run nothing any more, or whose
// instances nothing else can take.
func (t *term) letGo(ctx context.Context, states []service.HostState) {
	for _, h := range states {
		if !h.Leaving || !h.Connected {
			continue
		}
		r, may := t.mayLeave(h)
		if !may {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, reportWait)
		err := t.c.cfg.Hosts.Release(limited, t.led.Epoch(), h.Name, r)
		cancel()
		if err != nil && ctx.Err() == nil {
			t.c.log.Warn("cannot let a host end that leaves", "host", h.Name, "error", err)
		}
	}
}

// mayLeave says whether a host that leaves may end, and why.
func (t *term) mayLeave(h service.HostState) (service.Release, bool) {
	if !h.Reported {
		return service.Release{}, false
	}
	running := 0
	for _, i := range h.Instances {
		if !ended(i) {
			running++
		}
	}
	slots := t.mirror.slotsOn(h.Name)
	if slots == 0 && running == 0 {
		return service.Release{Empty: true}, true
	}
	if err := t.world().Room(); err != nil && slots > 0 {
		return service.Release{Reason: err.Error()}, true
	}
	return service.Release{}, false
}
