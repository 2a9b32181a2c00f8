package views_test

import (
	"strings"
	"testing"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

// mayPick the last of three instances, or who.
func mayPick(s *views.Server) string { return s.MayPick("a", []string{"i0002"}).Text() }

func TestWhoHasNotAcknowledgedThatAnInstanceLeftMayPickItForFifteenSeconds(t *testing.T) {
	clock := newHand()
	s, dial := serve(t, views.Config{Clock: clock.now})
	s.Begin(first)
	one, two := published(first, "a", 1, 3), published(first, "a", 2, 2)
	s.Publish(one, view.Adds)
	c := dial()
	web, job := subscribe(t, c, "service/web", nil).welcome().holding(one), subscribe(t, c, "caller/job", nil).welcome().holding(one)
	subscribe(t, c, "gateway/gw", nil).welcome().holding(one)
	eventually(t, "three hold it", func() bool { r, _ := s.Propagation("a"); return r.Callers == 3 })
	if got := mayPick(s); got != "the view, which names it still" {
		t.Errorf("before: %s", got)
	}
	s.Publish(two, view.Removes)
	if p := s.MayPick("a", []string{"i0002"}); p.Callers != 2 || p.For != routing.Grace {
		t.Errorf("published: %+v", p)
	}
	web.applied(two, "")
	eventually(t, "one acknowledges", func() bool { return mayPick(s) == "1 caller (caller/job)" })
	clock.move(routing.Grace - time.Millisecond)
	if got := mayPick(s); got != "1 caller (caller/job)" {
		t.Errorf("a moment before the time has passed: %s", got)
	}
	clock.move(time.Millisecond)
	if got := mayPick(s); got != "nobody" {
		t.Errorf("when the time has passed: %s", got)
	}
	// It comes back into the views, and goes again.
	s.Publish(published(first, "a", 3, 3), view.Adds)
	four := published(first, "a", 4, 2)
	s.Publish(four, view.Removes)
	web.applied(two, "")
	job.applied(four, "")
	eventually(t, "an earlier view without it is none", func() bool { return mayPick(s) == "1 caller (service/web)" })
}

func TestWhoLeftAMomentAgoMayPickByWhatItHeldUntilItIsBackOrTheTimeHasPassed(t *testing.T) {
	clock := newHand()
	s, dial := serve(t, views.Config{Clock: clock.now})
	s.Begin(first)
	one, two := published(first, "a", 1, 3), published(first, "a", 2, 2)
	s.Publish(one, view.Adds)
	clock.move(routing.Grace) // long after it began
	c := dial()
	web := subscribe(t, c, "service/web", nil).welcome().holding(one)
	eventually(t, "it holds it", func() bool { return holders(s, "a") == "web 1/1 current" })
	if err := web.CloseSend(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it left", func() bool { return s.Connected() == 0 })
	clock.move(10 * time.Second)
	s.Publish(two, view.Removes)
	if got := mayPick(s); got != "1 caller (service/web, which left)" {
		t.Errorf("it left ten seconds ago: %s", got)
	}
	web = subscribe(t, c, "service/web", nil).welcome().holding(one)
	eventually(t, "it is back, and has acknowledged nothing", func() bool { return mayPick(s) == "1 caller (service/web)" })
	web.applied(two, "")
	eventually(t, "it has", func() bool { return mayPick(s) == "nobody" })
}

func TestARelayAndWhomItServesMayPickAsItsSumsSay(t *testing.T) {
	clock := newHand()
	s, dial := serve(t, views.Config{Clock: clock.now})
	s.Begin(first)
	one, two := published(first, "a", 1, 3), published(first, "a", 2, 2)
	s.Publish(one, view.Adds)
	clock.move(routing.Grace) // long after it began
	r := subscribe(t, dial(), "relay-1", nil).welcome().holding(one)
	tell := func(at ...uint32) { // :: counter-1 → subscribers
		x := &pb.ServiceTally{Service: "a", Subscribers: 40}
		for i, n := range at {
			x.Versions = append(x.Versions, &pb.VersionTally{Epoch: 1, Counter: uint64(i + 1), Subscribers: n})
		}
		r.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Tally{Tally: &pb.RelayTally{Services: []*pb.ServiceTally{x}}}})
	}
	tell(40)
	eventually(t, "its subscribers count", func() bool { p, _ := s.Propagation("a"); return p.Callers == 40 })
	s.Publish(two, view.Removes)
	if got := mayPick(s); got != "41 callers (relay/relay-1 itself, 40 at relay/relay-1)" {
		t.Errorf("published: %s", got)
	}
	r.applied(two, "")
	tell(1, 39)
	eventually(t, "most have it", func() bool { return mayPick(s) == "1 caller (1 at relay/relay-1)" })
	if err := r.CloseSend(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the relay left", func() bool { return mayPick(s) == "1 caller (1 at relay/relay-1, which left)" })
	clock.move(routing.Grace + time.Millisecond)
	if got := mayPick(s); got != "nobody" {
		t.Errorf("when the time has passed: %s", got)
	}
}

func TestUnderANewLeaderThoseWhoAreNotBackYetAreWaitedFor(t *testing.T) {
	clock := newHand()
	s, dial := serve(t, views.Config{Clock: clock.now})
	s.Remember(7)
	s.Begin(first)
	subscribe(t, dial(), "gateway/gw", nil).welcome()
	s.Publish(published(first, "a", 1, 2), view.Adds)
	if got := mayPick(s); !strings.HasPrefix(got, "callers that have not come back since control began to lead, of 7") {
		t.Errorf("at once: %s", got)
	}
	relay := subscribe(t, dial(), "relay-1", nil).welcome()
	serves := func(n uint32) {
		relay.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Relay{Relay: &pb.RelayState{Address: "r:1", Subscribers: n}}})
	}
	serves(5)
	eventually(t, "a relay is back, with five", func() bool { return s.Doors().Relays != nil })
	if got := mayPick(s); !strings.HasPrefix(got, "callers that have not come back") {
		t.Errorf("with six: %s", got)
	}
	serves(6)
	eventually(t, "all are back", func() bool { return mayPick(s) == "nobody" })
	s.Remember(9)
	if got := mayPick(s); got == "nobody" {
		t.Error("two are missing")
	}
	clock.move(routing.Grace)
	if got := mayPick(s); got != "nobody" {
		t.Errorf("when the time has passed: %s", got)
	}
}
