package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/surface/stream"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

func hello(name string, t *view.Table, digest string) *pb.FollowHello {
	return &pb.FollowHello{Name: name, Session: "s1", Serves: wire.HeldProto(t.Version, digest)}
}

func TestTheLeadersEpochComesBeforeAnyTable(t *testing.T) {
	s, c := serve(t, stream.Config{})
	s.Offer(table(1, "a-1"))
	f := follow(t, c, "g", nil)
	if e := f.welcome(); e != leader {
		t.Errorf("welcomed by %s", e)
	}
	if d := f.delta(); !d.Full() || len(d.Changed) != 1 {
		t.Errorf("first table: %+v", d)
	}
}

func TestAGatewayMayNotFollowUnderAnotherName(t *testing.T) {
	s, c := serve(t, stream.Config{})
	s.Offer(table(1, "a-1"))
	f := follow(t, c, "g", &pb.FollowHello{Name: "h"})
	if err := f.ended(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("got %v", err)
	}
	if got := s.States(); len(got) != 0 {
		t.Errorf("known: %+v", got)
	}
}

func TestHelloIsSaidFirstAndOnce(t *testing.T) {
	_, c := serve(t, stream.Config{})
	mute, err := c.Follow(metadata.AppendToOutgoingContext(t.Context(), "name", "g"))
	if err != nil {
		t.Fatal(err)
	}
	f := raw{t, mute}
	f.say(&pb.FollowRequest{Message: &pb.FollowRequest_Beat{Beat: &pb.FollowBeat{}}})
	if err := f.ended(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no hello: %v", err)
	}
	f = follow(t, c, "g", nil)
	f.welcome()
	f.say(&pb.FollowRequest{Message: &pb.FollowRequest_Hello{Hello: &pb.FollowHello{Name: "g"}}})
	if err := f.ended(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("hello twice: %v", err)
	}
}

func TestWhoIsCurrentIsSentOnlyTheNewNumber(t *testing.T) {
	s, c := serve(t, stream.Config{})
	held := view.NewTable(view.Version{Incarnation: "i", Epoch: 0, Counter: 1}, view.Epoch{Incarnation: "i"}, table(1, "a-1").Routes())
	s.Offer(table(5, "a-1"))
	newest := view.NewTable(view.Version{Incarnation: "i", Epoch: 1, Counter: 6}, leader, held.Routes())
	s.Offer(newest)
	f := follow(t, c, "g", hello("g", held, held.Digest.String()))
	f.welcome()
	if d := f.delta(); d.Base != held.Version || d.To != newest.Version || len(d.Changed)+len(d.Dropped) != 0 {
		t.Errorf("sent %+v", d)
	}
}

func TestWhoIsBehindIsSentOneDeltaFromWhatItHolds(t *testing.T) {
	s, c := serve(t, stream.Config{})
	one, two, three := table(1, "a-1", "b-1", "c-1"), table(2, "a-2", "b-1"), table(3, "a-2", "b-1")
	for _, t := range []*view.Table{one, two, three} {
		s.Offer(t)
	}
	ago := view.NewTable(view.Version{Incarnation: "i", Counter: 1}, view.Epoch{Incarnation: "i"}, nil)
	for name, c2 := range map[string]struct {
		of     *view.Table
		digest string
		full   bool
	}{
		"retained": {one, one.Digest.String(), false},
		// What only may fit is sent by sequence, and checked by its digest.
		"not retained": {ago, table(1, "z-1").Digest.String(), false},
		"asks for all": {one, "", true},
		"other content under a number of a table": {one, table(1, "z-1").Digest.String(), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := follow(t, c, "g", hello("g", c2.of, c2.digest))
			f.welcome()
			d := f.delta()
			if d.Full() != c2.full || d.To != three.Version || d.Digest != three.Digest {
				t.Errorf("sent %+v", d)
			}
			if name == "retained" {
				if got, err := one.Apply(d); err != nil || got.Digest != three.Digest {
					t.Errorf("the delta does not fit: %v", err)
				}
			}
		})
	}
}

func TestAnotherContentUnderTheSameVersionIsRepairedByAFullTable(t *testing.T) {
	s, c := serve(t, stream.Config{})
	newest := table(3, "a-1")
	s.Offer(newest)
	f := follow(t, c, "g", hello("g", newest, table(3, "a-9").Digest.String()))
	f.welcome()
	if d := f.delta(); !d.Full() {
		t.Errorf("sent %+v", d)
	}
}

func TestAStalledSubscriberNeverDelaysAnotherAndIsSentOneCoalescedDelta(t *testing.T) {
	s, c := serve(t, stream.Config{})
	stalled, other := follow(t, c, "g", nil), follow(t, c, "h", nil)
	stalled.welcome()
	other.welcome()
	var last *view.Table
	for i := range uint64(100) {
		last = table(i+1, fmt.Sprintf("a-%d-%s", i, strings.Repeat("x", 32<<10)), "b-1")
		s.Offer(last)
		if d := other.delta(); d.To != last.Version {
			t.Fatalf("another was sent %s, want %s", d.To, last.Version)
		}
	}
	received := 0
	for d := (view.Delta{}); d.To != last.Version; received++ {
		d = stalled.delta()
	}
	if received >= 100 {
		t.Errorf("the stalled one was sent %d deltas: nothing was coalesced", received)
	}
}

func TestASecondStreamOfAGatewayReplacesTheFirst(t *testing.T) {
	s, c := serve(t, stream.Config{})
	one := table(1, "a-1")
	s.Offer(one)
	first := follow(t, c, "g", nil)
	first.welcome()
	first.delta()
	second := follow(t, c, "g", &pb.FollowHello{Name: "g", Session: "s2"})
	second.welcome()
	if err := first.ended(); status.Code(err) != codes.Aborted {
		t.Errorf("the first ended by %v", err)
	}
	second.delta()
	second.ack(one)
	gatewaytest.Await(t, s, "the second is the one that counts", func(m map[string]service.GatewayState) bool {
		return m["g"].Session == "s2" && m["g"].Connected && m["g"].Serves == one.Version
	})
}

func TestAStalledStreamIsReplacedToo(t *testing.T) {
	s, c := serve(t, stream.Config{})
	first := follow(t, c, "g", nil)
	first.welcome()
	for i := range uint64(100) { // more than its window, unread
		s.Offer(table(i+1, fmt.Sprintf("a-%d-%s", i, strings.Repeat("x", 32<<10))))
	}
	second := follow(t, c, "g", &pb.FollowHello{Name: "g", Session: "s2"})
	second.welcome()
	if d := second.delta(); d.To.Counter != 100 {
		t.Errorf("sent %s", d.To)
	}
}

func TestARefusalNamesTheLeader(t *testing.T) {
	_, c := serve(t, stream.Config{Admit: func(context.Context, service.GatewayState) (view.Epoch, error) {
		return view.Epoch{}, standby{}
	}})
	m := follow(t, c, "g", nil).next()
	if r := m.GetRefusal(); r.GetReason() != "another leads" || r.GetLeader() != "10.0.0.7:7700" {
		t.Errorf("got %v", m)
	}
}

type standby struct{}

func (standby) Error() string  { return "another leads" }
func (standby) Leader() string { return "10.0.0.7:7700" }

func TestALeaderThatStandsDownEndsEveryStreamAndForgets(t *testing.T) {
	s, c := serve(t, stream.Config{})
	s.Offer(table(7, "a-1"))
	f := follow(t, c, "g", nil)
	f.welcome()
	f.delta()
	s.Dismiss("another leads", "10.0.0.7:7700")
	if r := f.next().GetRefusal(); r.GetLeader() != "10.0.0.7:7700" {
		t.Errorf("got %v", r)
	}
	f.ended()
	if got := s.States(); len(got) != 0 {
		t.Errorf("known: %+v", got)
	}
	s.Offer(table(8, "a-1")) // by who does not know yet that it leads no more
	f = follow(t, c, "g", nil)
	f.welcome()
	s.Lead()
	s.Offer(table(5, "a-2")) // of a store that another leader has put back
	if d := f.delta(); d.To.Counter != 5 || !d.Full() {
		t.Errorf("sent %+v", d)
	}
}

func TestAGatewayAdmittedWhileTheLeaderStandsDownIsNotEntered(t *testing.T) {
	var s *stream.Server
	s, c := serve(t, stream.Config{Admit: func(context.Context, service.GatewayState) (view.Epoch, error) {
		s.Dismiss("another leads", "")
		return leader, nil
	}})
	follow(t, c, "g", nil).ended()
	if got := s.States(); len(got) != 0 {
		t.Errorf("known: %+v", got)
	}
}

func TestAGoodbyeThatIsNotRecordedEndsNothing(t *testing.T) {
	s, c := serve(t, stream.Config{Goodbye: func(context.Context, string) error { return errors.New("no store") }})
	f := follow(t, c, "g", nil)
	f.welcome()
	f.say(&pb.FollowRequest{Message: &pb.FollowRequest_Goodbye{Goodbye: &pb.FollowGoodbye{}}})
	if err := f.ended(); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	if got := s.States(); len(got) != 1 {
		t.Errorf("known: %+v", got)
	}
}

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestASilentGatewayStaysKnownAndItsSilenceGrowsUntilItIsHeard(t *testing.T) {
	at := &clock{now: time.Now()}
	s, c := serve(t, stream.Config{Clock: at.Now})
	f := follow(t, c, "g", nil)
	f.welcome()
	at.add(time.Hour)
	if g := s.States()[0]; !g.Connected || g.Silent != time.Hour {
		t.Errorf("silent: %+v", g)
	}
	f.say(&pb.FollowRequest{Message: &pb.FollowRequest_Beat{Beat: &pb.FollowBeat{}}})
	gatewaytest.Await(t, s, "g was heard", func(m map[string]service.GatewayState) bool { return m["g"].Silent == 0 })
}

func TestTheHostsThatPollAGatewayAreKnownByItsBeats(t *testing.T) {
	s, c := serve(t, stream.Config{})
	f := follow(t, c, "g", nil)
	f.welcome()
	for _, hosts := range [][]string{{"a", "b"}, {"b"}, nil} {
		f.say(&pb.FollowRequest{Message: &pb.FollowRequest_Beat{Beat: &pb.FollowBeat{Hosts: hosts}}})
		gatewaytest.Await(t, s, "its hosts are known", func(m map[string]service.GatewayState) bool { return slices.Equal(m["g"].Polled, hosts) })
	}
}

func TestWhatWaitsAtAGatewayIsKnownByItsBeatsAndWakesNobody(t *testing.T) {
	s, c := serve(t, stream.Config{})
	f := follow(t, c, "g", hello("g", table(1, "a-1"), ""))
	f.welcome()
	gatewaytest.Await(t, s, "it is known", func(m map[string]service.GatewayState) bool { return m["g"].Connected })
	changed := s.Changed()
	for _, n := range []int32{3, 5, 0} {
		b := &pb.FollowBeat{}
		if n > 0 {
			b.Waiting = []*pb.WaitingRequests{{Service: "a", Requests: n}}
		}
		f.say(&pb.FollowRequest{Message: &pb.FollowRequest_Beat{Beat: b}})
		known := func() bool { return s.States()[0].Waiting["a"] == int(n) } // which nothing signals
		for end := time.Now().Add(20 * time.Second); !known(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("known are %v, not %d", s.States()[0].Waiting, n)
			}
		}
	}
	select {
	case <-changed:
		t.Error("who waits for gateways was woken")
	default:
	}
}

func TestABeatComesWhereNothingElseDoes(t *testing.T) {
	_, c := serve(t, stream.Config{Beat: 10 * time.Millisecond})
	f := follow(t, c, "g", nil)
	f.welcome()
	for range 3 {
		if m, err := f.Recv(); err != nil || m.GetBeat() == nil {
			t.Fatalf("got %v, %v", m, err)
		}
	}
}

func TestWhatWasSentIsKnownBeforeItIsAcknowledged(t *testing.T) {
	s, c := serve(t, stream.Config{})
	one := table(1, "a-1")
	s.Offer(one)
	f := follow(t, c, "g", nil)
	f.welcome()
	f.delta()
	if g := s.States()[0]; g.Sent != one.Version || !g.Serves.Zero() {
		t.Errorf("state: %+v", g)
	}
}

func TestAnAcknowledgementWakesWhoWaits(t *testing.T) {
	s, c := serve(t, stream.Config{})
	one := table(1, "a-1")
	s.Offer(one)
	f := follow(t, c, "g", nil)
	f.welcome()
	f.delta()
	changed := s.Changed()
	f.ack(one)
	select {
	case <-changed:
	case <-time.After(gatewaytest.Patience):
		t.Fatal("nobody was woken")
	}
	if g := s.States()[0]; g.Serves != one.Version || g.Keeps != one.Version || g.Epoch != leader || g.ServesDigest != one.Digest.String() {
		t.Errorf("state: %+v", g)
	}
}

// BenchmarkOffer sends one change of a table of 1,000 services to 100 gateways
// and waits until all have it.
func BenchmarkOffer(b *testing.B) {
	s, c := serve(b, stream.Config{})
	routes := make([]view.Route, 1000)
	for i := range routes {
		routes[i] = view.Route{Service: fmt.Sprintf("service-%d", i), Sequence: 1}
	}
	counter := uint64(1)
	offer := func() {
		counter++
		routes[7].Sequence = counter
		s.Offer(view.NewTable(view.Version{Incarnation: "i", Epoch: 1, Counter: counter}, leader, routes))
	}
	offer()
	var followers []raw
	for i := range 100 {
		f := follow(b, c, fmt.Sprintf("g%d", i), nil)
		f.welcome()
		f.delta()
		followers = append(followers, f)
	}
	for b.Loop() {
		offer()
		for _, f := range followers {
			f.delta()
		}
	}
}

func TestAFollowerThatServesOtherContentIsSentAllOfItWhenTheTableIsOfferedAgain(t *testing.T) {
	s, c := serve(t, stream.Config{})
	one := table(1, "a-1", "b-1")
	s.Offer(one)
	f, other := follow(t, c, "g", nil), follow(t, c, "h", nil)
	for _, who := range []raw{f, other} {
		who.welcome()
		who.delta()
		who.ack(one)
	}
	f.ack(table(1, "a-1", "b-9"))
	gatewaytest.Await(t, s, "it is noticed", func(m map[string]service.GatewayState) bool {
		return m["g"].Drifted && m["g"].Drifts == 1 && !m["h"].Drifted
	})
	s.Offer(table(1, "a-1", "b-1"))
	if d := f.delta(); !d.Full() || d.Digest != one.Digest || d.To != one.Version {
		t.Errorf("sent %+v", d)
	}
	if d := other.delta(); d.Full() || len(d.Changed)+len(d.Dropped) != 0 {
		t.Errorf("who agrees was sent %+v", d)
	}
	f.ack(one)
	gatewaytest.Await(t, s, "it has ended", func(m map[string]service.GatewayState) bool { return !m["g"].Drifted && m["g"].Drifts == 1 })
}
