package views

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

var epoch = view.Epoch{Incarnation: "i", Number: 1, Nonce: "n"}

func published(service string, counter uint64, endpoints int) *view.Service {
	s := &view.Service{Name: service, Epoch: epoch, Version: view.Version{Incarnation: "i", Epoch: 1, Counter: counter}}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, view.Endpoint{ID: fmt.Sprintf("i%04d", i), Weight: 1000})
	}
	return s
}

// entered is a subscriber without a stream.
func entered(s *Server, name string, holds ...*view.Service) *subscriber {
	sub := &subscriber{s: s, role: "gateway", name: name, wake: make(chan struct{}, 1), holds: map[string]*holding{}, cancel: func() {}}
	s.enter(sub, &pb.SubscribeHello{Name: name})
	for _, v := range holds {
		held := &pb.Subscription{Service: v.Name, Held: wire.HeldProto(v.Version, v.Digest().String())}
		if v.Version.Zero() {
			held.Held = nil
		}
		if err := s.obey(sub, &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: &pb.SubscriptionEdit{Add: []*pb.Subscription{held}}}}); err != nil {
			panic(err)
		}
	}
	return sub
}

func TestAChangeIsEncodedOnceForAllWhoHoldTheSame(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	one, two := published("a", 1, 3), published("a", 2, 4)
	s.Publish(one, view.Adds)
	// Two by what they say that they hold, one by what it was sent, two with nothing.
	x, y, z := entered(s, "x", one), entered(s, "y", one), entered(s, "z", &view.Service{Name: "a"})
	s.take(z)
	s.Publish(two, view.Adds)
	f := s.take(x)
	if f == nil || f != s.take(y) || f != s.take(z) {
		t.Error("a change from one version to another is not shared")
	}
	n := entered(s, "n", &view.Service{Name: "a"})
	if whole := s.take(n); whole == f || whole != s.take(entered(s, "m", &view.Service{Name: "a"})) {
		t.Error("a whole view is not shared, or is a change")
	}
	if s.take(x) != nil {
		t.Error("who was sent the newest is sent something")
	}
}

func TestWhatIsUrgentGoesBeforeWhatWaits(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	x := entered(s, "x", &view.Service{Name: "a"}, &view.Service{Name: "b"}, &view.Service{Name: "c"})
	for s.take(x) != nil {
	}
	s.Publish(published("a", 1, 1), view.Adds)
	s.Publish(published("b", 2, 1), view.Adds)
	s.Publish(published("c", 3, 1), view.Withdraws)
	s.Publish(published("b", 4, 1), view.Withdraws)
	var got []string
	for f := s.take(x); f != nil; f = s.take(x) {
		got = append(got, fmt.Sprint(f.to.Name, f.to.Version.Counter))
	}
	if fmt.Sprint(got) != "[c3 b4 a1]" {
		t.Errorf("sent %v", got)
	}
}

// takeAll is what one message would have.
func (s *Server) takeAll(sub *subscriber) []*frame {
	var room [mostTogether]*frame
	frames, _, _ := s.next(sub, room[:0])
	return frames
}

func TestOneMessageHasWhatIsUrgentFirstAndIsEncodedOncePerChange(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	all := []*view.Service{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	x, y := entered(s, "x", all...), entered(s, "y", all...)
	s.next(x, nil) // the welcome
	s.next(y, nil)
	x.several, y.several = true, true
	s.Publish(published("a", 1, 1), view.Adds)
	s.Publish(published("b", 2, 2), view.Adds)
	s.Publish(published("c", 3, 3), view.Withdraws)
	s.Publish(published("b", 4, 4), view.Withdraws)
	mine, others := s.takeAll(x), s.takeAll(y)
	m, err := together(mine)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[*frame]*byte{}
	for _, f := range mine {
		parts[f] = &f.part[0]
	}
	if _, err := together(others); err != nil {
		t.Fatal(err)
	}
	for _, f := range others {
		if parts[f] != &f.part[0] {
			t.Errorf("the change of %s is encoded for each", f.to.Name)
		}
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	read := &pb.SubscribeResponse{}
	if err := proto.Unmarshal(b, read); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, c := range read.GetChanges().GetChanges() {
		got = append(got, fmt.Sprint(c.GetService(), c.GetCounter()))
		if !proto.Equal(c, mine[i].proto()) {
			t.Errorf("sent %v, meant %v", c, mine[i].proto())
		}
	}
	if fmt.Sprint(got) != "[c3 b4 a1]" || len(read.ProtoReflect().GetUnknown()) > 0 {
		t.Errorf("sent %v", got)
	}
}

func TestOneMessageIsBounded(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	for _, c := range []struct{ services, endpoints, together int }{{3, 10, 3}, {40, 10, mostTogether}, {40, mostEntire / 4, 4}, {40, 2 * mostEntire, 1}} {
		x := entered(s, "x")
		s.next(x, nil)
		x.several = true
		for i := range c.services {
			v := published(fmt.Sprint(c, i), 1, c.endpoints)
			s.Publish(v, view.Adds)
			if err := s.obey(x, &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: &pb.SubscriptionEdit{Add: []*pb.Subscription{{Service: v.Name}}}}}); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(s.takeAll(x)); got != c.together {
			t.Errorf("of %d services of %d endpoints %d are told together", c.services, c.endpoints, got)
		}
	}
}

func TestKeptViewsAreBounded(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	for n := range uint64(200) {
		s.Publish(published("small", n+1, 1), view.Adds)
		if n < 5 {
			s.Publish(published("large", n+1, mostEndpoints/3), view.Adds)
		}
	}
	if small, large := len(s.topics["small"].recent), len(s.topics["large"].recent); small != mostRecent || large != 3 {
		t.Errorf("%d of the small service and %d of the large one are kept", small, large)
	}
	x := entered(s, "x", &view.Service{Name: "nobody publishes it"})
	s.leave(x)
	s.Forget("small")
	s.Forget("large")
	if len(s.topics) != 0 {
		t.Errorf("%d topics are left of nothing", len(s.topics))
	}
}

func TestWhoDoesNotTakeItsAnswersIsLetGo(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	x := entered(s, "x")
	var err error
	for n := 0; err == nil && n < 2*mostWaiting; n++ {
		err = s.obey(x, &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: &pb.SubscriptionEdit{Drop: []string{"a"}, Add: []*pb.Subscription{{Service: "a"}}}}})
	}
	if err == nil {
		t.Error("what waits has no bound")
	}
}

func TestTheProcessesOfOneServiceHoldViewsBesideEachOtherAndEachIsOneSubscriber(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	enter := func(role, session string) (sub *subscriber, ended *bool) {
		ended = new(bool)
		sub = &subscriber{s: s, role: role, name: "web", wake: make(chan struct{}, 1), holds: map[string]*holding{}, cancel: func() { *ended = true }}
		s.enter(sub, &pb.SubscribeHello{Name: "web", Session: session})
		return sub, ended
	}
	one, oneEnded := enter("service", "1")
	_, twoEnded := enter("service", "2")
	if len(s.Subscribers()) != 2 || *oneEnded || *twoEnded {
		t.Fatalf("%d subscribers, ended %v and %v", len(s.Subscribers()), *oneEnded, *twoEnded)
	}
	if _, _ = enter("service", "1"); !*oneEnded || len(s.Subscribers()) != 2 {
		t.Errorf("the same process again: ended %v, %d subscribers", *oneEnded, len(s.Subscribers()))
	}
	s.leave(one) // the stream that was replaced
	for n := range 100 {
		sub, _ := enter("service", fmt.Sprintf("restarted-%d", n))
		s.leave(sub)
	}
	if n := len(s.Subscribers()); n > 3 {
		t.Errorf("%d are remembered of one that starts again and again", n)
	}
	_, gatewayEnded := enter("gateway", "1")
	if enter("gateway", "2"); !*gatewayEnded {
		t.Error("two gateways have one name")
	}
}

func TestBeatsAreFewerWhereThereAreManySubscribersAndOnlyForWhoKnows(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	old, knows := entered(s, "old"), entered(s, "knows")
	knows.hello.Features = []string{featureBeats}
	for _, c := range []struct {
		open int
		next time.Duration
	}{{2, time.Second}, {1000, time.Second}, {7000, 7 * time.Second}, {60_000, longestBeat}} {
		s.open = c.open
		if m, next := s.beat(knows); next != c.next || m.GetNextMs() != uint32(c.next.Milliseconds()) {
			t.Errorf("of %d: the next comes after %s, and %d ms are told", c.open, next, m.GetNextMs())
		}
		if m, next := s.beat(old); next != time.Second || m.GetNextMs() != 0 {
			t.Errorf("of %d, to one that does not know: after %s, and %d ms are told", c.open, next, m.GetNextMs())
		}
	}
}

func TestWhoCameTogetherIsToldTogetherAndWhoLeftIsNotTold(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	s.Publish(published("a", 1, 3), view.Adds)
	var all []*subscriber
	for i := range 6 {
		all = append(all, entered(s, fmt.Sprint(i), &view.Service{Name: "a"}))
	}
	for _, sub := range all {
		s.take(sub)
	}
	s.leave(all[0])
	s.leave(all[3])
	s.leave(all[5])
	all = append(all, entered(s, "6", &view.Service{Name: "a"}))
	s.take(all[6])
	two := published("a", 2, 4)
	want := []*subscriber{all[1], all[2], all[4], all[6]}
	if got := s.publish(two, two.Digest(), view.Adds); !slices.Equal(got, want) {
		t.Errorf("%d are told, in another order", len(got))
	}
	three := published("a", 3, 5)
	if got := s.publish(three, three.Digest(), view.Adds); len(got) != 0 {
		t.Errorf("%d are woken again before they looked", len(got))
	}
}

func TestWhoTakesAChangeOrAcknowledgesOneWaitsForNobodyWhoDoesSo(t *testing.T) {
	s := New(Config{})
	s.Begin(epoch)
	s.Publish(published("a", 1, 3), view.Adds)
	x := entered(s, "x", &view.Service{Name: "a"})
	s.next(x, nil) // the welcome
	s.mu.RLock()   // as another that does so, and is slow
	defer s.mu.RUnlock()
	done := make(chan error)
	go func() {
		if got := len(s.takeAll(x)); got != 1 {
			done <- fmt.Errorf("%d changes were taken", got)
		}
		done <- s.obey(x, &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Applied{Applied: &pb.ViewsApplied{Views: []*pb.AppliedView{{Service: "a", Epoch: 1, Counter: 1}}}}})
	}()
	select {
	case err := <-done:
		if err != nil || x.holds["a"].applied.Counter != 1 {
			t.Errorf("version %s is acknowledged: %v", x.holds["a"].applied, err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits")
	}
}
