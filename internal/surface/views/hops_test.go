package views

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// holder is a client by the rules of package view, as package resolver is one.
type holder struct {
	held  *view.HeldService
	marks view.Marks
	disk  *view.ServiceSnapshot
	kept  view.Marks
	tops  map[string]view.Version // :: incarnation → the highest that it took
}

func (h *holder) version() view.Version {
	if t := h.held.Told(); t != nil {
		return t.Version
	}
	return view.Version{}
}

// door is a control or a relay.
type door struct {
	s     *Server
	epoch view.Epoch
	as    *holder // of a relay
}

// subscribe has the holder take what a door sends, over the wire, and reports
// whether the door was welcome.
func (h *holder) subscribe(t *rapid.T, d *door, at time.Duration) bool {
	marks, _, err := h.marks.Heed(d.s.epoch, true)
	if h.left(d.s.epoch) && err == nil {
		t.Fatalf("a leader of the epoch %s is followed again, whose incarnation was left for %s", d.s.epoch, h.marks.Last())
	}
	if err != nil {
		return false
	}
	h.marks = marks
	before := view.Version{}
	if v := h.held.Told(); v != nil {
		before = v.Version
	}
	held := &view.Service{Name: "a"}
	if v := h.held.Told(); v != nil {
		held = v
	}
	sub := entered(d.s, "x", held)
	for f := d.s.take(sub); f != nil; f = d.s.take(sub) {
		p := wire.ChangeProto(f.to.ChangeFrom(f.base), f.under)
		c, err := wire.Change(p, "", d.s.epoch)
		if err != nil {
			t.Fatal(err)
		}
		next, err := h.held.Take(c, at)
		if errors.Is(err, view.ErrOlderVersion) && before.Incarnation != c.To.Incarnation {
			break // a door of an incarnation that it held once, and knows more of
		}
		if err != nil {
			t.Fatalf("a door of epoch %s sends %s to who holds %s: %v", d.s.epoch, c.To, before, err)
		}
		h.held = next
	}
	d.s.leave(sub)
	if v := h.held.Told(); v != nil {
		if top := h.tops[v.Version.Incarnation]; !top.Zero() && v.Version.Against(top) == view.Older {
			t.Fatalf("the version fell from %s to %s", top, v.Version)
		}
		h.tops[v.Version.Incarnation] = v.Version
	}
	return true
}

// left says that the holder has gone from the epoch's incarnation to another, and
// had heard that epoch or a later one before.
func (h *holder) left(e view.Epoch) bool {
	for _, m := range h.marks {
		if m.Epoch.Incarnation == e.Incarnation {
			return m.Epoch.Number >= e.Number && h.marks.Last().Incarnation != e.Incarnation
		}
	}
	return false
}

func (h *holder) keep() {
	if h.held != nil {
		s := h.held.Snapshot()
		h.disk, h.kept = &s, h.marks
	}
}

// restart loses what is in memory.
func (h *holder) restart() {
	h.held, h.marks = nil, h.kept
	if h.disk != nil {
		h.held = view.RestoreService(*h.disk)
	}
	h.tops = map[string]view.Version{}
	if v := h.version(); !v.Zero() {
		h.tops[v.Incarnation] = v
	}
}

// follow has a relay pass on what a control sends.
func (d *door) follow(t *rapid.T, c *door, at time.Duration) {
	if !d.as.subscribe(t, c, at) {
		return
	}
	d.s.Begin(c.s.epoch)
	if v := d.as.held.Told(); v != nil && v.Epoch.Incarnation == c.s.epoch.Incarnation {
		d.s.Publish(v, view.Adds)
	}
}

func newHolder() *holder { return &holder{tops: map[string]view.Version{}} }

func TestNoClientEverSeesAVersionFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Duration(0)
		led := &door{s: New(Config{Unlimited: true}), epoch: view.Epoch{Incarnation: "i0", Number: 1, Nonce: "n1"}}
		led.s.Begin(led.epoch)
		controls, counter := []*door{led}, uint64(0)
		relays := []*door{}
		for range 2 {
			relays = append(relays, &door{s: New(Config{Unlimited: true, Relay: true}), as: newHolder()})
		}
		client := newHolder()
		publish := func(d *door) {
			counter++
			v := &view.Service{Name: "a", Epoch: d.epoch, Version: view.Version{Incarnation: d.epoch.Incarnation, Epoch: d.epoch.Number, Counter: counter}}
			for i := range rapid.IntRange(1, 6).Draw(t, "endpoints") {
				v.Endpoints = append(v.Endpoints, view.Endpoint{ID: fmt.Sprintf("i%d", i), Weight: 1000, Verdict: view.Eligible})
			}
			d.s.Publish(v, view.Adds)
		}
		publish(led)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Second
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1:
				publish(led)
			case 2: // a new leader; the one before goes on, for those who still hear it
				led = &door{s: New(Config{Unlimited: true}), epoch: view.Epoch{Incarnation: led.epoch.Incarnation, Number: led.epoch.Number + 1, Nonce: fmt.Sprint("n", now)}}
				led.s.Begin(led.epoch)
				controls, counter = append(controls, led), 0
				publish(led)
			case 3: // the store is lost
				led = &door{s: New(Config{Unlimited: true}), epoch: view.Epoch{Incarnation: fmt.Sprint("i", now), Number: 1, Nonce: "n"}}
				led.s.Begin(led.epoch)
				controls, counter = append(controls, led), 0
				publish(led)
			case 4, 5: // a relay follows a control, which may not be the one that leads
				relays[rapid.IntRange(0, 1).Draw(t, "relay")].follow(t, rapid.SampledFrom(controls).Draw(t, "control"), now)
			case 6, 7:
				if d := relays[rapid.IntRange(0, 1).Draw(t, "relay")]; d.s.leads {
					client.subscribe(t, d, now)
				}
			case 8:
				client.subscribe(t, rapid.SampledFrom(controls).Draw(t, "control"), now)
				client.keep()
			case 9:
				client.restart()
			}
		}
	})
}

func TestAClientThatAlternatesBetweenAFreshAndAStaleRelayKeepsTheFreshViewAndIsSentNothingTwice(t *testing.T) {
	fresh, stale := New(Config{Relay: true}), New(Config{Relay: true})
	for _, s := range []*Server{fresh, stale} {
		s.Begin(epoch)
		s.Publish(published("a", 1, 3), view.Adds)
	}
	newest := published("a", 9, 5)
	fresh.Publish(newest, view.Adds)
	for range 5 {
		for _, s := range []*Server{stale, fresh} {
			sub := entered(s, "x", newest)
			if f := s.take(sub); f != nil {
				t.Fatalf("it is sent version %s", f.to.Version)
			}
			s.leave(sub)
		}
	}
	later := published("a", 10, 5)
	stale.Publish(later, view.Adds)
	sub := entered(stale, "x", newest)
	if f := stale.take(sub); f == nil || f.to != later {
		t.Error("once the stale relay is ahead it sends nothing")
	}
}

func TestWhoSaysThatItHoldsNothingAndNamesAViewIsLetGo(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	one := published("a", 1, 3)
	s.Publish(one, view.Adds)
	sub := &subscriber{s: s, role: "caller", name: "liar", wake: make(chan struct{}, 1), holds: map[string]*holding{}, cancel: func() {}}
	s.enter(sub, &pb.SubscribeHello{Name: "liar", HoldsNothing: true})
	names := func() error {
		return s.obey(sub, &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: &pb.SubscriptionEdit{
			Add: []*pb.Subscription{{Service: "a", Held: wire.HeldProto(one.Version, one.Digest().String())}},
		}}})
	}
	if err := names(); err == nil {
		t.Error("it is served")
	}
	if err := s.obey(sub, &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: &pb.SubscriptionEdit{Add: []*pb.Subscription{{Service: "a"}}}}}); err != nil {
		t.Fatal(err)
	}
	s.take(sub)
	if err := names(); err != nil {
		t.Errorf("what it was sent it may name: %v", err)
	}
}

func TestCallersAreSentToRelaysUnlessTheseFailed(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	relay := &subscriber{s: s, role: RoleRelay, name: "r", wake: make(chan struct{}, 1), holds: map[string]*holding{}, cancel: func() {}}
	s.enter(relay, &pb.SubscribeHello{Name: "r"})
	if err := s.obey(relay, &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Relay{Relay: &pb.RelayState{Address: "r:7710", Subscribers: 70_000}}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role   string
		failed bool
		away   bool
	}{{"caller", false, true}, {"service", false, true}, {"agent", false, true}, {"caller", true, false}, {"gateway", false, false}, {RoleRelay, false, false}} {
		sub := &subscriber{s: s, role: c.role, cancel: func() {}}
		if away := s.turnAway(sub, &pb.SubscribeHello{RelaysFailed: c.failed}); away != c.away || away && (len(sub.refusal.GetOthers()) != 1 || sub.refusal.GetOthers()[0] != "r:7710") {
			t.Errorf("a %s whose relays failed (%v) is sent away: %v, to %v", c.role, c.failed, away, sub.refusal.GetOthers())
		}
	}
	if d := s.Doors(); d.Share != 70_000/20/2 || d.spread() != 10*time.Second {
		t.Errorf("two doors of %d subscribers: %s", s.Population(), d)
	}
	s.leave(relay)
	if sub := (&subscriber{s: s, role: "caller", cancel: func() {}}); s.turnAway(sub, &pb.SubscribeHello{}) {
		t.Error("callers are sent to a relay that has left")
	}
	if err := s.obey(entered(s, "g"), &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Relay{Relay: &pb.RelayState{}}}); err == nil {
		t.Error("who is no relay says that it serves others")
	}
}

func TestWhatWasDeletedWhileASubscriberWasAwayIsToldToItAsAChange(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	held := published("a", 1, 4)
	s.Publish(held, view.Adds)
	s.Publish(published("a", 2, 3), view.Removes)
	last := published("a", 3, 0)
	last.Deleted = true
	s.Publish(last, view.Removes)
	f := s.take(entered(s, "x", held))
	if f == nil || f.base == nil {
		t.Fatal("it is sent nothing, or all")
	}
	after, err := held.Apply(f.to.ChangeFrom(f.base))
	if err != nil || !after.Deleted || len(after.Endpoints) != 0 {
		t.Errorf("it holds %+v: %v", after, err)
	}
}
