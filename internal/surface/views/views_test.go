package views_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

func TestASubscriberIsSentTheServicesThatItNamesWhileItNamesThem(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	s.Publish(published(first, "a", 1, 3), view.Adds)
	r := subscribe(t, dial(), "g", nil).welcome().add("a", "b")
	if c := r.change(); c.Service != "a" || !c.Full() || len(c.Put) != 3 {
		t.Errorf("first: %+v", c)
	}
	s.Publish(published(first, "c", 2, 1), view.Adds)
	s.Publish(published(first, "b", 3, 1), view.Adds)
	if c := r.change(); c.Service != "b" || !c.Full() {
		t.Errorf("of one that was published later: %+v", c)
	}
	r.edit(&pb.SubscriptionEdit{Drop: []string{"a"}})
	eventually(t, "it is dropped", func() bool { return len(s.Holders("a")) == 0 })
	s.Publish(published(first, "a", 4, 2), view.Adds)
	s.Publish(published(first, "b", 5, 2), view.Adds)
	if c := r.change(); c.Service != "b" || len(c.Put) != 1 {
		t.Errorf("after a was dropped: %+v", c)
	}
	if c := r.add("a").change(); c.Service != "a" || !c.Full() || len(c.Put) != 2 {
		t.Errorf("named again: %+v", c)
	}
}

func TestWhoIsBehindIsSentOneChangeFromTheVersionThatItHolds(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(second)
	one, two, three := published(second, "a", 1, 9), published(second, "a", 2, 5), published(second, "a", 3, 10)
	for _, v := range []*view.Service{one, two, three} {
		s.Publish(v, view.Adds)
	}
	foreign := published(view.Epoch{Incarnation: "other", Number: 1}, "a", 1, 9)
	forged := published(second, "a", 2, 4)
	old := published(first, "a", 7, 4)
	for name, c := range map[string]struct {
		held *view.Service
		full bool
	}{
		"retained": {one, false}, "of an earlier leader, and not at hand": {old, true},
		"foreign": {foreign, true}, "other content under a number of ours": {forged, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := subscribe(t, dial(), "g", nil).welcome().holding(c.held).change()
			if got.Full() != c.full {
				t.Fatalf("sent %+v", got)
			}
			if after, err := c.held.Apply(got); err != nil || after.Digest() != three.Digest() || after.Version != three.Version {
				t.Errorf("it does not lead to the newest: %v", err)
			}
			if !c.full && len(got.Put)+len(got.Gone) != 1 {
				t.Errorf("it holds %d and %d endpoints; one is new", len(got.Put), len(got.Gone))
			}
		})
	}
}

func TestWhoIsCurrentAfterAChangeOfLeaderIsSentOnlyTheNewNumber(t *testing.T) {
	s, dial := serve(t, views.Config{})
	held := published(first, "payments", 812, 300)
	s.Begin(second)
	s.Publish(published(second, "payments", 4, 300), view.Adds)
	r := subscribe(t, dial(), "g", nil).welcome().holding(held)
	m := r.next()
	if n := proto.Size(m); m.GetChange() == nil || n+5 > 100 { // 5 bytes are gRPC's own
		t.Errorf("sent %d bytes: %v", n, m)
	}
	s.Publish(published(second, "payments", 5, 301), view.Adds)
	if c := r.change(); c.Full() || len(c.Put) != 1 || c.Base.Counter != 4 {
		t.Errorf("then: %+v", c)
	}
}

func TestWhoHoldsTheNewestIsSentNothing(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	a := published(first, "a", 1, 3)
	s.Publish(a, view.Adds)
	s.Publish(published(first, "b", 2, 1), view.Adds)
	r := subscribe(t, dial(), "g", nil).welcome().holding(a).add("b")
	if c := r.change(); c.Service != "b" {
		t.Errorf("sent %+v", c)
	}
	if got := holders(s, "a"); got != "g 1/1 current" {
		t.Errorf("it holds %s", got)
	}
}

func TestASubscriberThatLostItsPlaceAsksForTheWholeView(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	s.Publish(published(first, "a", 1, 3), view.Adds)
	r := subscribe(t, dial(), "g", nil).welcome().add("a")
	r.change()
	if c := r.add("a").change(); !c.Full() || len(c.Put) != 3 {
		t.Errorf("asked again: %+v", c)
	}
}

func TestMoreServicesThanOneMayHoldAreRefusedByName(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	names := []string{""}
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("s%05d", i))
	}
	r := subscribe(t, dial(), "g", nil).welcome().add(names...)
	refused := map[string]string{} // :: service → why
	for len(refused) < 8001 {
		for _, x := range r.next().GetRefused().GetServices() {
			refused[x.GetService()] = x.GetReason()
		}
	}
	if refused[""] != "it has no name" || !strings.Contains(refused["s09999"], "at most 2,000") || refused["s01999"] != "" {
		t.Errorf("refused %d: %q, %q, %q", len(refused), refused[""], refused["s09999"], refused["s01999"])
	}
	s.Publish(published(first, "s02000", 1, 1), view.Adds)
	s.Publish(published(first, "s01999", 2, 1), view.Adds)
	if c := r.change(); c.Service != "s01999" {
		t.Errorf("sent %s", c.Service)
	}
	r.edit(&pb.SubscriptionEdit{Drop: []string{"s00000"}, Add: []*pb.Subscription{{Service: "s02000"}}})
	if c := r.change(); c.Service != "s02000" {
		t.Errorf("with room again it is sent %s", c.Service)
	}
}

func TestAStalledSubscriberNeverDelaysAnother(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	s.Publish(published(first, "a", 1, 1), view.Adds)
	stalled := subscribe(t, dial(), "stalled", nil).welcome().add("a")
	stalled.change()
	reads := subscribe(t, dial(), "reads", nil).welcome().add("a")
	reads.change()
	const last = 60 // of 100 KB each: far beyond what the transport holds for one that does not read
	for n := uint64(2); n <= last; n++ {
		v := published(first, "a", n, 1)
		v.Endpoints[0].Zone = fmt.Sprint(n, strings.Repeat(" ", 100<<10))
		s.Publish(v, view.Withdraws)
		if c := reads.change(); c.To.Counter != n {
			t.Fatalf("version %d was published, %s came", n, c.To)
		}
	}
	got := 0
	for at := uint64(1); at < last; got++ {
		c := stalled.change()
		if c.Base.Counter != at {
			t.Fatalf("at version %d it is sent a change from %s", at, c.Base)
		}
		at = c.To.Counter
	}
	if got > last/2 {
		t.Errorf("the stalled one was sent %d changes: they are not made one", got)
	}
}

func TestWhatASubscriberPicksByIsKnownByItsWord(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(second)
	one := published(second, "a", 1, 3)
	s.Publish(one, view.Adds)
	r := subscribe(t, dial(), "g", nil).welcome().holding(published(first, "a", 9, 3))
	eventually(t, "it is known by what it says that it holds", func() bool { return holders(s, "a") == "g 1/9" })
	r.change()
	r.applied(one, "")
	eventually(t, "it acknowledges", func() bool { return holders(s, "a") == "g 2/1 current" })
	r.applied(published(second, "a", 7, 3), "")
	r.add("b")
	eventually(t, "what it says of the future was heard", func() bool { return len(s.Holders("b")) == 1 })
	two := published(second, "a", 2, 3)
	two.Endpoints[0].Weight = 0
	s.Publish(two, view.Withdraws)
	r.change()
	if got := holders(s, "a"); got != "g 2/1" {
		t.Errorf("before it acknowledges the next: %s", got)
	}
	if all := s.Subscribers(); len(all) != 1 || all[0].Views != 2 || all[0].Behind != 1 || all[0].Library != "test 1" || !all[0].Connected {
		t.Errorf("subscribers: %+v", all)
	}
	r.applied(two, "one stays")
	eventually(t, "its objection is known", func() bool { return holders(s, "a") == "g 2/2 current but one stays" })
	if err := r.CloseSend(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is known when it has left", func() bool { return holders(s, "a") == "g 2/2 current away but one stays" })
}

func TestASubscriberTooOldForAFeatureIsTold(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	s.Publish(published(first, "a", 1, 1), view.Adds)
	r := subscribe(t, dial(), "g", &pb.SubscribeHello{Name: "g", Features: []string{"marks", "of a later program"}})
	if missing := r.next().GetWelcome().GetMissing(); !slices.Equal(missing, []string{"out", "shed"}) {
		t.Errorf("told that it lacks %v", missing)
	}
	r.epoch = first
	if c := r.add("a").change(); c.Service != "a" {
		t.Errorf("it is sent %+v", c)
	}
	if all := s.Subscribers(); !slices.Equal(all[0].Missing, []string{"out", "shed"}) {
		t.Errorf("known: %+v", all)
	}
}

func TestWhereNoViewsArePublishedSubscribersAreSentAway(t *testing.T) {
	s, dial := serve(t, views.Config{Leader: func() string { return "10.0.0.2:7700" }})
	if refusal, err := subscribe(t, dial(), "g", nil).ended(); refusal.GetLeader() != "10.0.0.2:7700" || status.Code(err) != codes.Aborted {
		t.Errorf("before the beginning: %v, %v", refusal, err)
	}
	s.Begin(first)
	s.Publish(published(first, "a", 1, 1), view.Adds)
	r := subscribe(t, dial(), "g", nil).welcome().add("a")
	r.change()
	s.End()
	if refusal, err := r.ended(); refusal.GetLeader() != "10.0.0.2:7700" || status.Code(err) != codes.Aborted {
		t.Errorf("at the end: %v, %v", refusal, err)
	}
	s.Publish(published(first, "a", 2, 1), view.Adds)
	s.Begin(second)
	s.Publish(published(first, "a", 3, 1), view.Adds)
	s.Publish(published(second, "b", 1, 1), view.Adds)
	if c := subscribe(t, dial(), "g", nil).welcome().add("a", "b").change(); c.Service != "b" || c.Epoch != second {
		t.Errorf("what an earlier epoch published is sent: %+v", c)
	}
}

func TestASubscriberHasOneStreamAndSpeaksForItself(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	if _, err := subscribe(t, dial(), "g", &pb.SubscribeHello{Name: "h"}).ended(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("under another name: %v", err)
	}
	old := subscribe(t, dial(), "g", nil).welcome().add("a")
	eventually(t, "the first holds", func() bool { return len(s.Holders("a")) == 1 })
	subscribe(t, dial(), "g", nil).welcome().add("b")
	if refusal, _ := old.ended(); !strings.Contains(refusal.GetReason(), "replaced") {
		t.Errorf("the first is told %v", refusal)
	}
	eventually(t, "only the second is known", func() bool { return len(s.Holders("a")) == 0 && len(s.Holders("b")) == 1 })
	mute := subscribe(t, dial(), "g", nil).welcome()
	mute.say(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Hello{Hello: &pb.SubscribeHello{Name: "g"}}})
	if _, err := mute.ended(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("hello twice: %v", err)
	}
}

func TestALowerViewIsNeverSent(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	s.Publish(published(first, "a", 5, 1), view.Adds)
	s.Publish(published(first, "a", 4, 2), view.Adds)
	if c := subscribe(t, dial(), "g", nil).welcome().add("a").change(); c.To.Counter != 5 {
		t.Errorf("sent %s", c.To)
	}
}
