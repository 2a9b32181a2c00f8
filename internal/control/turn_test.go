package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// told is what a controller tells of its turns and of the gateways, in order.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (o *told) say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, fmt.Sprintf(format, args...))
}

func (o *told) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines)
}

func (o *told) edit(address string) func(*control.Config) {
	return func(c *control.Config) {
		c.Address = address
		c.Turned = func(leading bool) { o.say("leads: %v", leading) }
		c.SetGateways = func(e view.Epoch, gs []service.Gateway) { o.say("epoch %d, gateways %d", e.Number, len(gs)) }
	}
}

func TestTurnsOfTheLeadAreToldBeforeItsFirstCommandAndTheGatewaysWithItsEpoch(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var a, b told
		first := r.start(options{standby: true, edit: a.edit("10.0.0.1:7700")})
		r.within(5*time.Second, "the gateway is told", func() bool { return slices.Contains(a.all(), "epoch 1, gateways 1") })
		if got := a.all(); got[0] != "leads: true" || got[1] != "epoch 1, gateways 0" {
			t.Errorf("told %q", got)
		}
		second := r.start(options{standby: true, edit: b.edit("10.0.0.2:7700")})
		r.within(5*time.Second, "the second knows the first", func() bool { return second.Leader().Address == "10.0.0.1:7700" })
		time.Sleep(time.Minute)
		if l := second.Leader(); l.Holder != "c0" || l.Quiet > 3*time.Second {
			t.Errorf("a leader that renews its lease is seen as %+v", l)
		}
		if l := first.Leader(); l != (control.Leader{}) {
			t.Errorf("who leads sees another: %+v", l)
		}
		_, err := second.AdmitHost(r.t.Context(), service.Host{Name: "z"}, view.Epoch{})
		var other interface{ Leader() string }
		if !errors.Is(err, fault.Unavailable) || !errors.As(err, &other) || other.Leader() != "10.0.0.1:7700" || !strings.Contains(err.Error(), "c0") {
			t.Errorf("who comes to the second is told %v", err)
		}
		if len(b.all()) != 0 {
			t.Errorf("the second told %q while it stood by", b.all())
		}
		first.stop()
		if got := a.all(); got[len(got)-1] != "leads: false" {
			t.Errorf("told %q", got)
		}
		r.within(10*time.Second, "the second tells", func() bool {
			return len(b.all()) >= 2 && b.all()[0] == "leads: true" && b.all()[1] == "epoch 2, gateways 1"
		})
	})
}

func TestAnEpochTakenAboveIsToldWithTheGateways(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var a told
		c := r.start(options{standby: true, edit: a.edit("")})
		r.within(5*time.Second, "it leads", c.Leading)
		kept := view.Epoch{Incarnation: r.store.Incarnation(), Number: 40, Nonce: "of another"}
		if _, err := c.AdmitHost(r.t.Context(), service.Host{Name: "z"}, kept); err != nil {
			t.Fatal(err)
		}
		r.within(time.Second, "it is told", func() bool { return slices.Contains(a.all(), "epoch 41, gateways 1") })
	})
}

// unreachable is a store that cannot be read from some moment on.
type unreachable struct {
	store.Store
	from atomic.Bool
}

func (u *unreachable) Get(ctx context.Context, k store.Key) (store.Document, error) {
	if u.from.Load() {
		return store.Document{}, errors.New("no connection")
	}
	return u.Store.Get(ctx, k)
}

func TestALeaderIsQuietForWhoCannotAskTheStore(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		a := r.start(options{standby: true})
		r.within(time.Second, "the first leads", a.Leading)
		u := &unreachable{}
		b := r.start(options{standby: true, wrap: func(s store.Store) store.Store { u.Store = s; return u }})
		r.within(5*time.Second, "the second knows the first", func() bool { return b.Leader().Holder != "" })
		u.from.Store(true)
		time.Sleep(time.Minute)
		if l := b.Leader(); l.Quiet < 50*time.Second {
			t.Errorf("it is taken to be heard: %+v", l)
		}
	})
}
