package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

type states = map[string]service.GatewayState // :: gateway name → state

func offeredBefore(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	t := l.table(1, "a", "a-1")
	c.Offer(t)
	g := s.Gateway("g")
	s.settled(c, "g", t.Version)
	s.routes(g, "a", "a-1")
}

func offeredWhile(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	Await(s.T, c, "g is connected", func(m states) bool { return m["g"].Connected })
	one, two := l.table(1, "a", "a-1", "b", "b-1"), l.table(2, "a", "a-2", "b", "b-1")
	c.Offer(one)
	s.settled(c, "g", one.Version)
	c.Offer(two)
	s.settled(c, "g", two.Version)
	s.routes(g, "a", "a-2")
	s.routes(g, "b", "b-1")
	for _, st := range c.States() {
		if st.ServesDigest != two.Digest.String() || st.Sent != two.Version || st.Session == "" || st.Poll == "" || st.Public == "" {
			s.Errorf("state: %+v", st)
		}
	}
}

func admission(s *suite) {
	l := term("i", 1)
	var open atomic.Bool
	var asked atomic.Int32
	c := s.Control(PortConfig{Admit: func(context.Context, service.GatewayState) (view.Epoch, error) {
		asked.Add(1)
		if !open.Load() {
			return view.Epoch{}, errors.New("the store does not answer")
		}
		return view.Epoch(l), nil
	}})
	t := l.table(1, "a", "a-1")
	c.Offer(t)
	g := s.Gateway("g")
	Await(s.T, c, "g was refused twice", func(states) bool { return asked.Load() >= 2 })
	if g.Table() != nil || len(c.States()) != 0 {
		s.Fatalf("sent a table, or made known, before it was admitted: %+v", c.States())
	}
	open.Store(true)
	s.settled(c, "g", t.Version)
}

func coalesced(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	var t *view.Table
	for i := range uint64(200) {
		t = l.table(i+1, "a", fmt.Sprintf("a-%d", i+1))
		c.Offer(t)
	}
	c.Offer(l.table(100, "a", "a-100")) // late, and ignored
	s.settled(c, "g", t.Version)
	s.routes(g, "a", "a-200")
}

func restarted(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	t := l.table(1, "a", "a-1")
	c.Offer(t)
	s.settled(c, "g", t.Version)
	session := c.States()[0].Session
	g.Stop()
	Await(s.T, c, "g is known and not connected", func(m states) bool {
		return m["g"].Name == "g" && !m["g"].Connected && m["g"].Serves == t.Version
	})
	c.Close()
	g.Start()
	s.routes(g, "a", "a-1")
	var hello atomic.Value
	c = s.Control(PortConfig{Admit: func(_ context.Context, st service.GatewayState) (view.Epoch, error) {
		hello.Store(st)
		return view.Epoch(l), nil
	}})
	Await(s.T, c, "g is connected again", func(m states) bool { return m["g"].Connected })
	st := hello.Load().(service.GatewayState)
	if st.Serves != t.Version || st.Keeps != t.Version || st.Epoch != view.Epoch(l) || st.Session == session {
		s.Errorf("it said of itself: %+v", st)
	}
}

func silent(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	one, two := l.table(1, "a", "a-1"), l.table(2, "a", "a-2")
	c.Offer(one)
	s.settled(c, "g", one.Version)
	g.Cut()
	c.Offer(two)
	Await(s.T, c, "g is silent for 2 s", func(m states) bool { return m["g"].Silent > 2*time.Second })
	if st := c.States()[0]; st.Serves != one.Version || st.Sent != two.Version {
		s.Errorf("while cut off: %+v", st)
	}
	s.routes(g, "a", "a-1")
	g.Heal()
	s.settled(c, "g", two.Version)
	if st := c.States()[0]; st.Silent > 1500*time.Millisecond {
		s.Errorf("after healing: %+v", st)
	}
}

func notDelayed(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g, other := s.Gateway("g"), s.Gateway("h")
	one := l.table(1, "a", "a-1")
	c.Offer(one)
	s.settled(c, "g", one.Version)
	s.settled(c, "h", one.Version)
	g.Cut()
	// More than the windows of a connection hold, so that a sender is stuck.
	for i := range uint64(40) {
		t := l.table(i+2, "a", fmt.Sprintf("a-%d-%s", i+2, strings.Repeat("x", 64<<10)))
		c.Offer(t)
		s.settled(c, "h", t.Version)
	}
	last := l.table(50, "a", "a-50")
	c.Offer(last)
	s.settled(c, "h", last.Version)
	s.routes(other, "a", "a-50")
	s.routes(g, "a", "a-1")
	g.Heal()
	s.settled(c, "g", last.Version)
}

func newLeader(s *suite) {
	old, l := term("i", 1), term("i", 2)
	c := s.Control(PortConfig{Admit: old.admit})
	s.Gateway("g")
	one := old.table(5, "a", "a-1")
	c.Offer(one)
	s.settled(c, "g", one.Version)
	c.Close()
	c = s.Control(PortConfig{Admit: l.admit})
	two := l.table(5, "a", "a-1")
	c.Offer(two)
	s.settled(c, "g", two.Version)
}

func olderEpoch(s *suite) {
	old, l := term("i", 1), term("i", 2)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	one := l.table(1, "a", "a-1")
	c.Offer(one)
	s.settled(c, "g", one.Version)
	c.Close()
	var shown atomic.Int32
	c = s.Control(PortConfig{Admit: func(_ context.Context, st service.GatewayState) (view.Epoch, error) {
		if st.Epoch == view.Epoch(l) {
			shown.Add(1)
		}
		return view.Epoch(old), nil
	}})
	c.Offer(old.table(99, "a", "a-99"))
	Await(s.T, c, "the higher epoch was shown, and again", func(states) bool { return shown.Load() >= 2 })
	s.routes(g, "a", "a-1")
	if st := c.States()[0]; st.Serves != one.Version {
		s.Errorf("obeyed: %+v", st)
	}
	c.Close()
	next := term("i", 3)
	c = s.Control(PortConfig{Admit: next.admit})
	two := next.table(2, "a", "a-2")
	c.Offer(two)
	s.settled(c, "g", two.Version)
}

func notKept(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	one, two := l.table(1, "a", "a-1"), l.table(2, "a", "a-2")
	c.Offer(one)
	s.settled(c, "g", one.Version)
	g.FailKeeping(errors.New("no space left on device"))
	c.Offer(two)
	Await(s.T, c, "g serves and does not keep", func(m states) bool {
		return m["g"].Serves == two.Version && m["g"].Keeps == one.Version && m["g"].KeepError != ""
	})
	s.routes(g, "a", "a-2")
	g.FailKeeping(nil)
	s.settled(c, "g", two.Version)
	if st := c.States()[0]; st.KeepError != "" {
		s.Errorf("after there is room: %+v", st)
	}
}

func refused(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	one, two := l.table(1, "a", "a-1", "b", "b-1"), l.table(2, "a", "a-2", "b", "b-2")
	c.Offer(one)
	s.settled(c, "g", one.Version)
	g.Refuse("a", "not today")
	c.Offer(two)
	s.settled(c, "g", two.Version)
	st := c.States()[0]
	if st.Refused["a"] != "not today" || len(st.Refused) != 1 || st.ServesDigest != two.Digest.String() {
		s.Errorf("state: %+v", st)
	}
	s.routes(g, "a", "a-1")
	s.routes(g, "b", "b-2")
	g.Refuse("a", "")
	three := l.table(3, "a", "a-3", "b", "b-2")
	c.Offer(three)
	s.settled(c, "g", three.Version)
	if st := c.States()[0]; len(st.Refused) != 0 {
		s.Errorf("still refused: %+v", st)
	}
	s.routes(g, "a", "a-3")
}

func emptied(s *suite) {
	old, l := term("i", 7), term("j", 1)
	c := s.Control(PortConfig{Admit: old.admit})
	g := s.Gateway("g")
	one := old.table(70, "a", "a-1")
	c.Offer(one)
	s.settled(c, "g", one.Version)
	c.Close()
	c = s.Control(PortConfig{Admit: l.admit})
	empty := l.table(1)
	c.Offer(empty)
	s.settled(c, "g", empty.Version)
	s.routes(g, "a", "a-1")
	if st := c.States()[0]; !strings.HasPrefix(st.Refused["a"], view.ReasonOrphaned) {
		s.Errorf("the orphan is not said: %+v", st)
	}
	named := l.table(2, "a", "a-1", "b", "b-1")
	c.Offer(named)
	s.settled(c, "g", named.Version)
	if st := c.States()[0]; len(st.Refused) != 0 {
		s.Errorf("still an orphan: %+v", st)
	}
}

func goodbye(s *suite) {
	l := term("i", 1)
	var open atomic.Bool
	c := s.Control(PortConfig{Admit: l.admit, Goodbye: func(_ context.Context, name string) error {
		if !open.Load() || name != "g" {
			return errors.New("the store does not answer")
		}
		return nil
	}})
	g := s.Gateway("g")
	t := l.table(1, "a", "a-1")
	c.Offer(t)
	s.settled(c, "g", t.Version)
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := g.Goodbye(ctx); err == nil {
		s.Fatal("a goodbye that was not recorded was taken")
	}
	Await(s.T, c, "g is still a member", func(m states) bool { return m["g"].Connected })
	open.Store(true)
	if err := g.Goodbye(ctx); err != nil {
		s.Fatal(err)
	}
	Await(s.T, c, "g is forgotten", func(m states) bool { return len(m) == 0 })
}

func acknowledged(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	for i := range uint64(50) {
		c.Offer(l.table(i+1, "a", fmt.Sprintf("a-%d", i+1)))
		changed := c.Changed()
		for _, st := range c.States() {
			if got := g.Table(); !st.Serves.Zero() && got.Version.Against(st.Serves) == view.Older {
				s.Fatalf("acknowledged %s, routes by %s", st.Serves, got.Version)
			}
		}
		if i%10 == 9 {
			select {
			case <-changed:
			case <-time.After(time.Second):
			}
		}
	}
	s.settled(c, "g", l.table(50).Version)
}

func tampered(s *suite) {
	l := term("i", 1)
	c := s.Control(PortConfig{Admit: l.admit})
	g := s.Gateway("g")
	t := l.table(1, "a", "a-1", "b", "b-1")
	c.Offer(t)
	s.settled(c, "g", t.Version)
	g.Stop()
	g.Tamper("a", func(r view.Route) view.Route {
		r.Splits = []view.Split{{Revision: "a-9", Percent: 100, Group: "a-9", Allowed: []string{"a-9"}}}
		return r
	})
	g.Start()
	Await(s.T, c, "it was noticed and replaced", func(m states) bool {
		st := m["g"]
		return st.Drifts == 1 && !st.Drifted && st.Serves == t.Version && st.ServesDigest == t.Digest.String()
	})
	s.routes(g, "a", "a-1")
	s.routes(g, "b", "b-1")
	g.Stop()
	g.Start()
	s.routes(g, "a", "a-1")
	Await(s.T, c, "it is connected, and found once", func(m states) bool { return m["g"].Connected && m["g"].Drifts == 1 })
}
