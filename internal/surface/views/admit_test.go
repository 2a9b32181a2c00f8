package views_test

import (
	"strings"
	"sync/atomic"
	"testing"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
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
