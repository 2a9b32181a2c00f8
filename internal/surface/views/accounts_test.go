package views_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

// hand is a clock that stands still unless it is moved.
type hand struct {
	mu sync.Mutex
	at time.Time
}

func newHand() *hand { return &hand{at: time.Unix(1_800_000_000, 0)} }

func (h *hand) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *hand) move(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

func acknowledged(s *views.Server, k budget.Kind) uint64 {
	r, _ := s.Propagation("a")
	return r.Latency[k].Count()
}

func TestAWithdrawalIsMeasuredByAcknowledgementsAndWhoIsBehindIsNamed(t *testing.T) {
	clock := newHand()
	s, dial := serve(t, views.Config{Clock: clock.now})
	s.Begin(first)
	one, two := published(first, "a", 1, 3), published(first, "a", 2, 2)
	s.Publish(one, view.Adds)
	c := dial()
	quick, slow := subscribe(t, c, "quick", nil).welcome().holding(one), subscribe(t, c, "slow", nil).welcome().holding(one)
	eventually(t, "both hold it", func() bool { r, _ := s.Propagation("a"); return r.Callers == 2 })
	s.Publish(two, view.Withdraws)
	if n := quick.change().Nature; n != view.Withdraws {
		t.Errorf("the change is said to be of nature %d", n)
	}
	clock.move(300 * time.Millisecond)
	quick.applied(two, "")
	eventually(t, "it is acknowledged", func() bool { return acknowledged(s, budget.Withdrawal) == 1 })
	if m := s.Missed(); len(m) != 0 {
		t.Errorf("missed too early: %v", m)
	}
	clock.move(6 * time.Second)
	if m := s.Missed()["a"]; !strings.Contains(m, "1 of 2 acknowledgements by callers came within 5s, promised are 99%; 1 behind: gateway/slow (6s)") {
		t.Errorf("it says %q", m)
	}
	h := s.Holding(t.Context(), "a", 0)
	if len(h.Rows) != 2 || h.Rows[0].Name != "slow" || h.Rows[0].Behind < 6*time.Second || h.Rows[0].Library != "test 1" || !h.Rows[1].Current || h.Rows[1].Behind != 0 {
		t.Errorf("who holds it: %+v", h.Rows)
	}
	if len(h.Versions) != 2 || h.Versions[0].Version != two.Version || h.Versions[0].Behind != 0 || h.Versions[1].Holders != 1 || h.Versions[1].Behind < 6*time.Second {
		t.Errorf("versions: %+v", h.Versions)
	}
	slow.applied(two, "")
	eventually(t, "it is acknowledged late", func() bool { return acknowledged(s, budget.Withdrawal) == 2 })
	if m := s.Missed()["a"]; !strings.Contains(m, "nobody is behind now") {
		t.Errorf("afterwards: %q", m)
	}
}

func TestARelaySpeaksForItsSubscribersAndNobodyElseDoes(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	one, two := published(first, "a", 1, 3), published(first, "a", 2, 2)
	s.Publish(one, view.Adds)
	c := dial()
	r := subscribe(t, c, "relay-1", nil).welcome().holding(one)
	tell := func(to *raw, subscribers uint32, at ...uint32) { // at :: counter-1 → subscribers
		x := &pb.ServiceTally{Service: "a", Subscribers: subscribers}
		for i, n := range at {
			x.Versions = append(x.Versions, &pb.VersionTally{Epoch: 1, Counter: uint64(i + 1), Subscribers: n})
		}
		to.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Tally{Tally: &pb.RelayTally{Services: []*pb.ServiceTally{x}}}})
	}
	tell(r, 400, 400)
	eventually(t, "its subscribers are callers", func() bool { p, _ := s.Propagation("a"); return p.Callers == 400 })
	s.Publish(two, view.Withdraws)
	r.applied(two, "") // a relay routes nothing itself
	tell(r, 400, 100, 300)
	eventually(t, "those who have it count", func() bool { return acknowledged(s, budget.Withdrawal) == 300 })
	tell(r, 400, 1, 399)
	eventually(t, "and those who have it since", func() bool { return acknowledged(s, budget.Withdrawal) == 399 })

	answer := make(chan struct{})
	go func() {
		defer close(answer)
		for {
			m, err := r.Recv()
			if err != nil {
				return
			}
			if w := m.GetRosterWanted(); w != nil {
				_ = r.Send(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Roster{Roster: &pb.Roster{Ask: w.GetAsk(), Service: w.GetService(), More: 399, Entries: []*pb.RosterEntry{
					{Role: "service", Name: "web", Epoch: 1, Counter: 1, BehindMs: 70, Connected: true},
				}}}})
				return
			}
		}
	}()
	h := s.Holding(context.Background(), "a", 0)
	<-answer
	if h.Callers != 400 || len(h.Rows) != 1 || h.Rows[0].Via != "relay-1" || h.Rows[0].Version != one.Version || h.Rows[0].Current || h.More != 399 || len(h.Unheard) != 0 {
		t.Errorf("who holds it: %+v", h)
	}

	g := subscribe(t, c, "g", nil).welcome().holding(one)
	tell(g, 9)
	if _, err := g.ended(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a gateway that speaks for others is told %v", err)
	}
	s.End()
}

func TestATallyIsWhatAServerSaysOfItsOwnSubscribers(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	one, two := published(first, "a", 1, 3), published(first, "a", 2, 2)
	s.Publish(one, view.Adds)
	s.Publish(two, view.Adds)
	c := dial()
	subscribe(t, c, "x", nil).welcome().holding(two)
	subscribe(t, c, "y", nil).welcome().holding(one)
	subscribe(t, c, "z", nil).welcome().add("a")
	eventually(t, "three hold it", func() bool { return s.Tally("a").GetSubscribers() == 3 })
	got := s.Tally("a")
	if len(got.GetVersions()) != 2 || got.GetVersions()[0].GetCounter() != 2 || got.GetVersions()[1].GetSubscribers() != 1 {
		t.Errorf("got %v", got)
	}
	if all := s.Roster(&pb.RosterWanted{Ask: 7, Service: "a", Most: 2}); all.GetAsk() != 7 || len(all.GetEntries()) != 2 || all.GetMore() != 1 || all.GetEntries()[0].GetBehindMs() == 0 && all.GetEntries()[1].GetBehindMs() == 0 {
		t.Errorf("the roster is %v", all)
	}
}

func TestAnotherEpochIsWelcomedOnTheSameStream(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	one := published(first, "a", 1, 3)
	s.Publish(one, view.Adds)
	r := subscribe(t, dial(), "g", nil).welcome().holding(one)
	s.Begin(second)
	s.Publish(published(second, "a", 2, 3), view.Adds)
	r.welcome()
	if c := r.change(); c.Full() || c.To != (view.Version{Incarnation: second.Incarnation, Epoch: 2, Counter: 2}) || len(c.Put) != 0 {
		t.Errorf("then it is sent %+v", c)
	}
	third := view.Epoch{Incarnation: "of another store", Number: 1, Nonce: "x"}
	s.Begin(third)
	s.Publish(published(third, "a", 1, 1), view.Adds)
	r.welcome()
	if c := r.change(); !c.Full() || c.Epoch != third {
		t.Errorf("of another incarnation it is sent %+v", c)
	}
}
