package views_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

// closed is a view whose policy allows these alone.
func closed(service string, counter uint64, allowed ...string) *view.Service {
	v := published(first, service, counter, 1)
	v.Callers = allowed
	return v
}

// refusal is the next message, which refuses one service.
func (r *raw) refusal() *pb.RefusedRoute {
	r.t.Helper()
	m := r.next()
	if len(m.GetRefused().GetServices()) != 1 {
		r.t.Fatalf("got %v, want one refusal", m)
	}
	return m.GetRefused().GetServices()[0]
}

func TestOneSubscriptionIsRefusedByPolicyAndTheOthersAreServed(t *testing.T) {
	var refused atomic.Int32
	s, dial := serve(t, views.Config{Refused: func(error) { refused.Add(1) }})
	s.Begin(first)
	s.Publish(closed("payments", 1, "service/web", "caller/batch"), view.Adds)
	s.Publish(published(first, "open", 2, 1), view.Adds)
	other := subscribe(t, dial(), "caller/other", nil).welcome().add("payments", "open")
	if x := other.refusal(); x.GetService() != "payments" || !strings.Contains(x.GetReason(), "payments does not allow caller/other") {
		t.Errorf("refused: %v", x)
	}
	if c := other.change(); c.Service != "open" {
		t.Errorf("sent %s", c.Service)
	}
	for _, name := range []string{"service/web", "caller/batch", "gateway/gw", "relay/r1"} {
		r := subscribe(t, dial(), name, nil).welcome().add("payments")
		if c := r.change(); c.Service != "payments" || strings.Join(c.Callers, " ") != "service/web caller/batch" {
			t.Errorf("%s is sent %s, which allows %v", name, c.Service, c.Callers)
		}
	}
	if got := holders(s, "payments"); refused.Load() != 1 || strings.Contains(got, "other") {
		t.Errorf("%d refusals were counted; held by %s", refused.Load(), got)
	}
}

func TestAPolicyThatChangesReachesWhoHoldsTheViewAndWhoWasRefusedIt(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	s.Publish(published(first, "payments", 1, 1), view.Adds)
	web := subscribe(t, dial(), "service/web", nil).welcome().add("payments")
	batch := subscribe(t, dial(), "caller/batch", nil).welcome().add("payments")
	web.change()
	batch.change()
	s.Publish(closed("payments", 2, "service/web"), view.Adds)
	if c := web.change(); c.To.Counter != 2 {
		t.Errorf("who is allowed is sent %s", c.To)
	}
	if x := batch.refusal(); x.GetService() != "payments" {
		t.Errorf("who is not allowed any more is told %v", x)
	}
	s.Publish(closed("payments", 3, "service/web"), view.Withdraws)
	if c := web.change(); c.To.Counter != 3 {
		t.Errorf("who is allowed is sent %s", c.To)
	}
	s.Publish(closed("payments", 4, "service/web", "caller/batch"), view.Adds)
	if c := batch.change(); c.To.Counter != 4 {
		t.Errorf("who is allowed again is sent %s", c.To)
	}
	s.Publish(closed("payments", 5, "service/web"), view.Adds)
	batch.refusal()
	s.Forget("payments")
	s.Publish(published(first, "payments", 6, 2), view.Adds)
	if c := batch.change(); c.To.Counter != 6 {
		t.Errorf("of a service made anew it is sent %s", c.To)
	}
}

func TestTheInstancesOfAServiceShareItsIdentityAndEachKeepsItsStream(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	hello := func(session string) *pb.SubscribeHello {
		return &pb.SubscribeHello{Name: "web", Session: session, Features: views.Features()}
	}
	one := subscribe(t, dial(), "service/web", hello("one")).welcome().add("a")
	two := subscribe(t, dial(), "service/web", hello("two")).welcome().add("a")
	eventually(t, "both are connected", func() bool { return len(s.Subscribers()) == 2 })
	s.Publish(published(first, "a", 1, 1), view.Adds)
	one.change()
	two.change()
	subscribe(t, dial(), "service/web", hello("one")).welcome()
	if refusal, _ := one.ended(); refusal == nil || !strings.Contains(refusal.GetReason(), "another stream of this subscriber") {
		t.Errorf("its own earlier stream ended by %v", refusal)
	}
}

// refusedRows are those of the table that a policy refuses, with their words.
func refusedRows(s *views.Server, service string) (out []string) {
	for _, r := range s.Holding(context.Background(), service, 0).Rows {
		if words, until := r.Stands(); r.Refused > 0 {
			out = append(out, r.Role+"/"+r.Name+" via "+r.Via+": "+words+until)
		}
	}
	return out
}

func TestACallerThatANewPolicyRefusesStaysInTheTableAsRefusedWhileItIsKnownToLive(t *testing.T) {
	clock := newHand()
	s, dial := serve(t, views.Config{Clock: clock.now})
	s.Begin(first)
	open := published(first, "payments", 1, 3)
	s.Publish(open, view.Adds)
	batch := subscribe(t, dial(), "caller/batch", nil).welcome().add("payments")
	batch.change()
	batch.applied(open, "")
	bare := subscribe(t, dial(), "caller/bare", nil).welcome()
	eventually(t, "it holds the view", func() bool { return holders(s, "payments") == "batch 1/1 current" })
	clock.move(routing.Grace) // long after it began
	shut := closed("payments", 2, "service/web")
	shut.Endpoints = open.Endpoints
	s.Publish(shut, view.Adds)
	batch.refusal()
	bare.add("payments").refusal()
	clock.move(90 * time.Second)
	const words = "refused by policy for 1m30s, may still pick by view 01JDXH3W8PZ6QK2M4N5R7S9TVW/1/1, 1m30s out of date"
	if got := refusedRows(s, "payments"); len(got) != 1 || got[0] != "caller/batch via : "+words+"; no stop waits for it" {
		t.Errorf("the table says %q", got)
	}
	if h := s.Holding(context.Background(), "payments", 0); h.Callers != 0 || h.Refused != 1 || s.Refused("payments") != 1 {
		t.Errorf("counted are %d, and %d refused", h.Callers, h.Refused)
	}

	// An instance leaves by plan. To wait for who will acknowledge nothing buys nothing.
	s.Publish(closed("payments", 3, "service/web"), view.Removes)
	if got := s.MayPick("payments", []string{"i0002"}).Text(); got != "nobody" {
		t.Errorf("a stop waits for %s", got)
	}

	if err := batch.CloseSend(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it left", func() bool { return s.Refused("payments") == 0 })
	clock.move(time.Minute)
	if got := refusedRows(s, "payments"); len(got) != 1 || !strings.Contains(got[0], "(left 2m45s ago)") {
		t.Errorf("of one that left: %q", got)
	}
	s.Publish(closed("payments", 4, "caller/batch"), view.Adds)
	if got := refusedRows(s, "payments"); len(got) != 0 {
		t.Errorf("of one that is allowed again: %q", got)
	}
	s.Publish(closed("payments", 5, "service/web"), view.Adds)
	batch = subscribe(t, dial(), "caller/batch", nil).welcome().holding(open)
	batch.refusal()
	if got := refusedRows(s, "payments"); len(got) != 1 || strings.Contains(got[0], "left") {
		t.Errorf("of one that is back with what it held: %q", got)
	}
}

func TestARelayTellsWhomAPolicyRefusesAmongItsSubscribers(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	s.Publish(closed("payments", 2, "service/web"), view.Adds)
	relay := subscribe(t, dial(), "relay-1", nil).welcome().holding(closed("payments", 2, "service/web"))
	relay.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Tally{Tally: &pb.RelayTally{Services: []*pb.ServiceTally{{Service: "payments", Refused: 3}}}}})
	eventually(t, "they are counted", func() bool { return s.Refused("payments") == 3 })
	rows := make(chan []string)
	go func() { rows <- refusedRows(s, "payments") }()
	wanted := relay.next().GetRosterWanted()
	relay.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Roster{Roster: &pb.Roster{Ask: wanted.GetAsk(), Service: "payments", Entries: []*pb.RosterEntry{
		{Role: "caller", Name: "batch", Epoch: 1, Counter: 1, Connected: true, BehindMs: 5000, RefusedMs: 4000},
	}}}})
	if got := <-rows; len(got) != 1 || !strings.HasPrefix(got[0], "caller/batch via relay-1: refused by policy for 4s, may still pick by view ") {
		t.Errorf("the table says %q", got)
	}
	// And it tells so itself.
	if own := s.Tally("payments"); own.GetRefused() != 3 || own.GetSubscribers() != 0 {
		t.Errorf("it tells %v", own)
	}
}
