package gatewaytest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

func epoch(n uint64) view.Epoch { return view.Epoch{Incarnation: "i", Number: n, Nonce: "n"} }

func table(e view.Epoch, counter uint64, revision string) *view.Table {
	return view.NewTable(
		view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: counter}, e,
		[]view.Route{{
			Service: "a", Sequence: counter, Hosts: []string{"a.localhost"},
			Splits: []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}},
		}})
}

func revision(t *view.Table) string {
	r, ok := t.Route("a")
	if !ok || len(r.Splits) == 0 {
		return ""
	}
	return r.Splits[0].Revision
}

// inBubble runs f with a fresh Sim of these gateways under a virtual clock.
func inBubble(t *testing.T, f func(t *testing.T, s *gatewaytest.Sim), names ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := gatewaytest.NewSim(names...)
		defer s.Close()
		f(t, s)
	})
}

func state(t *testing.T, p gatewaytest.Port, name string) service.GatewayState {
	t.Helper()
	for _, g := range p.States() {
		if g.Name == name {
			return g
		}
	}
	t.Fatalf("gateway %s is not known", name)
	return service.GatewayState{}
}

func TestALaggingGatewayTakesATableLate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *gatewaytest.Sim) {
		p := s.Attach(gatewaytest.PortConfig{})
		s.Gateway("g").Lag(3 * time.Second)
		p.Offer(table(epoch(1), 1, "a-1"))
		time.Sleep(2 * time.Second)
		p.Offer(table(epoch(1), 2, "a-2"))
		synctest.Wait()
		if got := s.Gateway("g").Table(); got != nil {
			t.Fatalf("took %s too early", got.Version)
		}
		if !state(t, p, "g").Serves.Zero() {
			t.Error("acknowledged what it does not serve")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := revision(s.Gateway("g").Table()); got != "a-2" {
			t.Errorf("routes to %q", got)
		}
	}, "g")
}

func TestACutOffGatewayGoesOnAndIsSilent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *gatewaytest.Sim) {
		p := s.Attach(gatewaytest.PortConfig{})
		p.Offer(table(epoch(1), 1, "a-1"))
		synctest.Wait()
		s.Gateway("g").Cut()
		p.Offer(table(epoch(1), 2, "a-2"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		got := state(t, p, "g")
		if got.Silent != 5*time.Second || got.Serves.Counter != 1 || got.Sent.Counter != 2 {
			t.Errorf("state while cut off: %+v", got)
		}
		if got := revision(s.Gateway("g").Table()); got != "a-1" {
			t.Errorf("routes to %q while cut off", got)
		}
		s.Gateway("g").Heal()
		synctest.Wait()
		if got := state(t, p, "g"); got.Silent != 0 || got.Serves.Counter != 2 {
			t.Errorf("state after healing: %+v", got)
		}
	}, "g")
}

func TestARestartedGatewayRoutesByWhatItsDiskKept(t *testing.T) {
	inBubble(t, func(t *testing.T, s *gatewaytest.Sim) {
		p := s.Attach(gatewaytest.PortConfig{})
		g := s.Gateway("g")
		p.Offer(table(epoch(1), 1, "a-1"))
		synctest.Wait()
		g.FailKeeping(errors.New("no space left"))
		p.Offer(table(epoch(1), 2, "a-2"))
		synctest.Wait()
		got := state(t, p, "g")
		if got.Serves.Counter != 2 || got.Keeps.Counter != 1 || got.KeepError != "no space left" {
			t.Errorf("state with a full disk: %+v", got)
		}
		if n := len(s.MayRoute()); n != 2 {
			t.Errorf("it may route by %d tables, want 2", n)
		}
		p.Close()
		g.Restart()
		synctest.Wait()
		if got := revision(g.Table()); got != "a-1" {
			t.Errorf("routes to %q after a restart without a plane", got)
		}
		g.FailKeeping(nil)
		p = s.Attach(gatewaytest.PortConfig{})
		p.Offer(table(epoch(1), 2, "a-2"))
		synctest.Wait()
		if got := state(t, p, "g"); got.Keeps.Counter != 2 || got.KeepError != "" || got.Session != "g-2" {
			t.Errorf("state after the disk has room: %+v", got)
		}
	}, "g")
}

func TestALeaderThatSleptIsNotObeyed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *gatewaytest.Sim) {
		var shown view.Epoch
		old := s.Attach(gatewaytest.PortConfig{Admit: func(_ context.Context, g service.GatewayState) (view.Epoch, error) {
			shown = g.Epoch
			return epoch(1), nil
		}})
		old.Offer(table(epoch(1), 1, "a-1"))
		synctest.Wait()
		next := s.Attach(gatewaytest.PortConfig{})
		next.Offer(table(epoch(2), 2, "a-2"))
		synctest.Wait()
		old.Offer(table(epoch(1), 99, "a-3"))
		synctest.Wait()
		if got := revision(s.Gateway("g").Table()); got != "a-2" {
			t.Errorf("routes to %q", got)
		}
		if got := state(t, old, "g"); got.Connected || got.Serves.Counter == 99 {
			t.Errorf("the old leader sees %+v", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if shown != epoch(2) {
			t.Errorf("the old leader was shown the epoch %s", shown)
		}
	}, "g")
}

func TestAGatewayThatIsNotAdmittedIsSentNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *gatewaytest.Sim) {
		var admit atomic.Bool
		p := s.Attach(gatewaytest.PortConfig{Admit: func(context.Context, service.GatewayState) (view.Epoch, error) {
			if !admit.Load() {
				return view.Epoch{}, errors.New("the store does not answer")
			}
			return epoch(1), nil
		}})
		p.Offer(table(epoch(1), 1, "a-1"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s.Gateway("g").Table() != nil || len(p.States()) != 0 {
			t.Fatal("sent a table before it was admitted")
		}
		admit.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := revision(s.Gateway("g").Table()); got != "a-1" {
			t.Errorf("routes to %q", got)
		}
	}, "g")
}

func TestAGoodbyeEndsTheMembership(t *testing.T) {
	inBubble(t, func(t *testing.T, s *gatewaytest.Sim) {
		var left string
		p := s.Attach(gatewaytest.PortConfig{Goodbye: func(_ context.Context, name string) error { left = name; return nil }})
		p.Offer(table(epoch(1), 1, "a-1"))
		synctest.Wait()
		if err := s.Gateway("g").Goodbye(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left != "g" || len(p.States()) != 1 || p.States()[0].Name != "h" {
			t.Errorf("left %q, known %+v", left, p.States())
		}
	}, "g", "h")
}

func TestARefusedRouteIsNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *gatewaytest.Sim) {
		p := s.Attach(gatewaytest.PortConfig{})
		p.Offer(table(epoch(1), 1, "a-1"))
		synctest.Wait()
		s.Gateway("g").Refuse("a", "not today")
		p.Offer(table(epoch(1), 2, "a-2"))
		synctest.Wait()
		got := state(t, p, "g")
		if got.Serves.Counter != 2 || got.Refused["a"] != "not today" || got.ServesDigest != table(epoch(1), 2, "a-2").Digest.String() {
			t.Errorf("state: %+v", got)
		}
		if got := revision(s.Gateway("g").Table()); got != "a-1" {
			t.Errorf("routes to %q", got)
		}
	}, "g")
}
