package views_test

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

func knowing(name string) *pb.SubscribeHello {
	return &pb.SubscribeHello{Name: name, Session: "s1", Library: "test 1", Features: append(views.Features(), "several")}
}

// changes is the next message of changes.
func (r *raw) changes() (out []view.Change) {
	r.t.Helper()
	m := r.next()
	all := m.GetChanges().GetChanges()
	if m.GetChange() != nil {
		all = append(all, m.GetChange())
	}
	for _, p := range all {
		c, err := wire.Change(p, "", r.epoch)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		r.t.Fatalf("got %v, want changes", m)
	}
	return out
}

func TestWhoKnowsOfSeveralIsSentAllThatItLacksInOneMessage(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	published := map[string]*view.Service{}
	for i, name := range []string{"a", "b", "c"} {
		published[name] = published1(name, uint64(i+1))
		s.Publish(published[name], view.Adds)
	}
	got := subscribe(t, dial(), "g", knowing("g")).welcome().add("a", "b", "c").changes()
	if len(got) != 3 {
		t.Fatalf("the first message has %d changes", len(got))
	}
	for _, c := range got {
		if held, err := (*view.Service)(nil).Apply(c); err != nil || held.Digest() != published[c.Service].Digest() {
			t.Errorf("of %s came %+v: %v", c.Service, c, err)
		}
	}
	old := subscribe(t, dial(), "old", nil).welcome().add("a", "b", "c")
	for range 3 { // fails unless each is a message of its own
		old.change()
	}
}

func published1(name string, counter uint64) *view.Service { return published(first, name, counter, 3) }

func TestAStalledSubscriberIsSentOneChangeOfEachServiceFromWhatItHolds(t *testing.T) {
	s, dial := serve(t, views.Config{})
	s.Begin(first)
	services := []string{"a", "b", "c"}
	counter := uint64(0)
	publish := func() {
		for _, name := range services {
			counter++
			v := published(first, name, counter, 1)
			v.Endpoints[0].Zone = fmt.Sprint(counter, strings.Repeat(" ", 40<<10))
			s.Publish(v, view.Withdraws)
		}
	}
	publish()
	at := map[string]uint64{} // :: service → what the stalled one holds
	stalled := subscribe(t, dial(), "stalled", knowing("stalled")).welcome().add(services...)
	take := func() {
		for _, c := range stalled.changes() {
			if c.Base.Counter != at[c.Service] {
				t.Fatalf("at version %d of %s it is sent a change from %s", at[c.Service], c.Service, c.Base)
			}
			at[c.Service] = c.To.Counter
		}
	}
	take()
	const rounds = 60 // far beyond what the transport holds for one that does not read
	for range rounds {
		publish()
	}
	messages := 0
	for ; at["a"] != counter-2 || at["b"] != counter-1 || at["c"] != counter; messages++ {
		take()
	}
	if messages > rounds {
		t.Errorf("%d messages were sent of %d changes: they are not made one", messages, 3*rounds)
	}
}
