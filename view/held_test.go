package view_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/view"
)

func TestALowerVersionIsRefused(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	old := w.table()
	w.set(route("a", 2))
	h, _ := take(t, nil, w.table().Whole(), authenticated)
	refuses(t, h, old.Whole(), authenticated, view.ErrOlderVersion)
	served(t, h, "a", 2)
}

func TestAnOlderEpochIsRefused(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	old := *w
	w.epoch = view.Epoch{Incarnation: "i", Number: 2, Nonce: "n2"}
	h, _ := take(t, nil, w.table().Whole(), authenticated)
	old.counter = 99
	refuses(t, h, old.table().Whole(), authenticated, view.ErrOlderEpoch)
	if _, _, err := h.Heed(old.epoch, authenticated); !errors.Is(err, view.ErrOlderEpoch) {
		t.Errorf("heeded a leader that was succeeded: %v", err)
	}
}

func TestALeaderThatSleptIsRefusedBeforeItsSuccessorSendsATable(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	h, _ := take(t, nil, w.table().Whole(), authenticated)
	h, _, err := h.Heed(view.Epoch{Incarnation: "i", Number: 2, Nonce: "n2"}, authenticated)
	if err != nil {
		t.Fatal(err)
	}
	w.set(route("a", 2))
	refuses(t, h, w.table().Whole(), authenticated, view.ErrOlderEpoch)
	served(t, h, "a", 1)
}

func TestTwoLeadersOfOneNumberAreTold(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	h, _ := take(t, nil, w.table().Whole(), authenticated)
	w.epoch.Nonce = "another"
	w.set(route("a", 2))
	refuses(t, h, w.table().Whole(), authenticated, view.ErrRivalEpoch)
	w.epoch.Number++ // the leader that was shown ours takes the next above
	h, _ = take(t, h, w.table().Whole(), authenticated)
	served(t, h, "a", 2)
}

func TestAnotherIncarnationIsTakenOnlyOverAnAuthenticatedStreamAndIsReported(t *testing.T) {
	w, other := newWorld("i"), newWorld("j")
	w.set(route("a", 1))
	h, first := take(t, nil, w.table().Whole(), view.Rules{})
	if first.Foreign {
		t.Error("the first incarnation of all was reported as another")
	}
	other.set(route("a", 7))
	refuses(t, h, other.table().Whole(), view.Rules{}, view.ErrUnauthenticated)
	h, taken := take(t, h, other.table().Whole(), authenticated)
	if !taken.Foreign {
		t.Error("another incarnation was not reported")
	}
	served(t, h, "a", 7)
}

func TestALeaderOfAnEarlierIncarnationIsRefusedWhenItWasSucceededThere(t *testing.T) {
	w, other := newWorld("i"), newWorld("j")
	w.set(route("a", 1))
	stale := w.table()
	w.epoch = view.Epoch{Incarnation: "i", Number: 2, Nonce: "n2"}
	h, _ := take(t, nil, w.table().Whole(), authenticated)
	other.set(route("a", 2))
	h, _ = take(t, h, other.table().Whole(), authenticated)
	refuses(t, h, stale.Whole(), authenticated, view.ErrOlderEpoch)
	refuses(t, h, w.table().Whole(), authenticated, view.ErrLeft)
	w.epoch = view.Epoch{Incarnation: "i", Number: 3, Nonce: "n3"} // it was started anew
	h, taken := take(t, h, w.table().Whole(), authenticated)
	if !taken.Foreign {
		t.Error("the return of the earlier incarnation was not reported")
	}
	served(t, h, "a", 1)
}

func TestAnEmptyTableDoesNotEmptyAGateway(t *testing.T) {
	for _, incarnation := range []string{"i", "j"} {
		w, empty := newWorld("i"), newWorld(incarnation)
		w.set(route("a", 1))
		w.set(route("b", 1))
		h, _ := take(t, nil, w.table().Whole(), authenticated)
		empty.counter = 10
		h, taken := take(t, h, empty.table().Whole(), authenticated)
		if diff := cmp.Diff([]string{"a", "b"}, taken.Orphaned); diff != "" {
			t.Errorf("orphans of %s:\n%s", incarnation, diff)
		}
		served(t, h, "a", 1)
		served(t, h, "b", 1)
		if h.Told().Len() != 0 || h.Told().Digest != empty.table().Digest {
			t.Errorf("what was told is not acknowledged as told")
		}
		if why := h.Objections()["a"]; !strings.HasPrefix(why, view.ReasonOrphaned) {
			t.Errorf("the orphan is not reported: %q", why)
		}
	}
}

func TestAnOrphanIsServedUntilThePlaneNamesItsService(t *testing.T) {
	w, other := newWorld("i"), newWorld("j")
	w.set(route("a", 1))
	w.set(route("b", 1))
	w.set(route("c", 1))
	h, _ := take(t, nil, w.table().Whole(), authenticated)
	other.set(route("new", 1))
	h, _ = take(t, h, other.table().Whole(), authenticated)
	sent := other.table()
	other.set(route("a", 2))
	other.remove("b")
	h, _ = take(t, h, other.table().DeltaFrom(sent), authenticated)
	served(t, h, "a", 2)
	served(t, h, "c", 1)
	if r, _ := h.Serving().Route("b"); !r.Deleted {
		t.Errorf("the tombstone did not end b: %+v", r)
	}
	if diff := cmp.Diff([]string{"c"}, h.Orphaned()); diff != "" {
		t.Errorf("orphans:\n%s", diff)
	}
}

func TestADroppedTombstoneLeavesNoOrphanAndADroppedLiveEntryDoes(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	w.set(route("b", 1))
	w.remove("a")
	sent := w.table()
	h, _ := take(t, nil, sent.Whole(), authenticated)
	w.collect("a")
	w.collect("b")
	h, taken := take(t, h, w.table().DeltaFrom(sent), authenticated)
	if _, ok := h.Serving().Route("a"); ok {
		t.Error("a dropped tombstone is still held")
	}
	if diff := cmp.Diff([]string{"b"}, taken.Orphaned); diff != "" {
		t.Errorf("orphans:\n%s", diff)
	}
	served(t, h, "b", 1)
}

func TestAServiceScaledToZeroExplainsItself(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	h, _ := take(t, nil, w.table().Whole(), authenticated)
	w.set(view.Route{Service: "a", Hosts: []string{"a.localhost"}})
	h, taken := take(t, h, w.table().Whole(), authenticated)
	if r, _ := h.Serving().Route("a"); len(r.Splits) != 0 || len(taken.Orphaned) != 0 {
		t.Errorf("still served: %+v %v", r, taken)
	}
}

func TestARefusedEntryLeavesTheHeldOneAndTheRestIsApplied(t *testing.T) {
	rules := view.Rules{Refuse: view.Route.Check}
	w := newWorld("i")
	w.set(route("a", 1))
	w.set(route("b", 1))
	h, _ := take(t, nil, w.table().Whole(), rules)
	sent := w.table()
	bad := route("a", 2)
	bad.Splits[0].Percent = 70
	w.set(bad)
	w.set(route("b", 2))
	h, _ = take(t, h, w.table().DeltaFrom(sent), rules)
	served(t, h, "a", 1)
	served(t, h, "b", 2)
	if h.Told().Digest != w.table().Digest {
		t.Error("the acknowledged digest is not the plane's")
	}
	if why := h.Objections(); len(why) != 1 || !strings.Contains(why["a"], "70") {
		t.Errorf("objections: %v", why)
	}
	sent = w.table()
	w.set(route("a", 3))
	h, _ = take(t, h, w.table().DeltaFrom(sent), rules)
	served(t, h, "a", 3)
	if why := h.Objections(); why != nil {
		t.Errorf("objections after a good entry: %v", why)
	}
}

func TestAKeptEntryYieldsItsHostNamesToWhomThePlaneGivesThem(t *testing.T) {
	w, other := newWorld("i"), newWorld("j")
	a := route("a", 1)
	a.Hosts = append(a.Hosts, "shop.example")
	w.set(a)
	h, _ := take(t, nil, w.table().Whole(), authenticated)
	b := route("b", 1)
	b.Hosts = append(b.Hosts, "shop.example")
	other.set(b)
	h, _ = take(t, h, other.table().Whole(), authenticated)
	r, _ := h.Serving().Route("a")
	if diff := cmp.Diff([]string{"a.localhost"}, r.Hosts); diff != "" {
		t.Errorf("the orphan's host names:\n%s", diff)
	}
}

func TestATableThatContradictsItselfIsRefused(t *testing.T) {
	w := newWorld("i")
	d := w.table().Whole()
	d.To.Epoch = 7
	refuses(t, nil, d, authenticated, view.ErrMalformed)
	refuses(t, nil, view.Delta{}, authenticated, view.ErrMalformed)
}

func TestAFullTableOfTheHeldVersionRepairsWhatIsHeld(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	wrong := view.NewTable(w.table().Version, w.epoch, []view.Route{route("a", 9)})
	h, _ := take(t, nil, wrong.Whole(), authenticated)
	h, _ = take(t, h, w.table().Whole(), authenticated)
	served(t, h, "a", 1)
}

func TestVersionsNeverFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld("i")
		w.set(route("a", 1))
		var past []view.Delta
		var h *view.Held
		last := w.table()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			step(t, w)
			if rapid.IntRange(0, 9).Draw(t, "lead") == 0 {
				w.epoch.Number++
			}
			now := w.table()
			past = append(past, now.Whole(), now.DeltaFrom(last), now.Delta(last.Version, true))
			last = now
			d := rapid.SampledFrom(past).Draw(t, "delivered")
			next, _, err := h.Take(d, view.Rules{Authenticated: rapid.Bool().Draw(t, "authenticated")})
			if err == nil && h != nil && next.Told().Version.Against(h.Told().Version) == view.Older {
				t.Fatalf("fell from %s to %s", h.Told().Version, next.Told().Version)
			}
			if err != nil && next != h {
				t.Fatal("a refused table changed what is held")
			}
			h = next
		}
	})
}

// What is served is what is told, but for the services that are objected to;
// and no live entry ever ends without being named.
func TestWhatIsServedIsToldAndObjectionsTogether(t *testing.T) {
	refuse := func(r view.Route) error {
		if strings.HasSuffix(r.Splits[0].Revision, "5") {
			return errors.New("a five")
		}
		return nil
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld("i")
		var h *view.Held
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			sent := h.Told()
			switch rapid.IntRange(0, 12).Draw(t, "kind") {
			case 0:
				w = newWorld(rapid.SampledFrom([]string{"j", "k", "l"}).Draw(t, "incarnation") + w.epoch.Incarnation)
			case 1:
				w.collect(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "lost"))
			default:
				step(t, w)
			}
			before := h
			var err error
			if h, _, err = h.Take(w.table().DeltaFrom(sent), view.Rules{Authenticated: true, Refuse: refuse}); err != nil {
				t.Fatal(err)
			}
			agrees(t, h, w.table())
			endsNamed(t, before, h)
			if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
				h = restarted(t, h, refuse)
				agrees(t, h, w.table())
			}
		}
	})
}

func agrees(t *rapid.T, h *view.Held, plane *view.Table) {
	if h.Told().Digest != plane.Digest || h.Serving().Version != plane.Version {
		t.Fatalf("told %s %s, want %s %s", h.Told().Version, h.Told().Digest, plane.Version, plane.Digest)
	}
	objections := h.Objections()
	for _, r := range plane.Routes() {
		got, ok := h.Serving().Route(r.Service)
		if _, objected := objections[r.Service]; !objected && (!ok || !cmp.Equal(got, r)) {
			t.Fatalf("service %s is served as %+v, told %+v", r.Service, got, r)
		}
	}
	for _, r := range h.Serving().Routes() {
		_, told := plane.Route(r.Service)
		if _, objected := objections[r.Service]; !told && !objected {
			t.Fatalf("service %s is served, not told, and not reported", r.Service)
		}
	}
}

func endsNamed(t *rapid.T, before, after *view.Held) {
	for _, r := range before.Serving().Routes() {
		if _, ok := after.Serving().Route(r.Service); !ok && !r.Deleted {
			t.Fatalf("the live entry of %s went unnamed", r.Service)
		}
	}
}

func restarted(t *rapid.T, h *view.Held, refuse func(view.Route) error) *view.Held {
	b, err := json.Marshal(h.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var s view.Snapshot
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	back := view.Restore(s, refuse)
	if diff := cmp.Diff(h.Serving().Routes(), back.Serving().Routes()); diff != "" {
		t.Fatalf("served after a restart:\n%s", diff)
	}
	if diff := cmp.Diff(h.Objections(), back.Objections()); diff != "" {
		t.Fatalf("objections after a restart:\n%s", diff)
	}
	if back.Epoch() != h.Epoch() {
		t.Fatalf("epoch %s after a restart, want %s", back.Epoch(), h.Epoch())
	}
	return back
}

func TestWhatIsAcknowledgedIsWhatWasToldAlsoWhereAnEntryIsNotServed(t *testing.T) {
	w := newWorld("i")
	w.set(route("a", 1))
	w.set(route("b", 1))
	refuse := view.Rules{Authenticated: true, Refuse: func(r view.Route) error {
		if r.Splits[0].Revision == "a-00002" {
			return errors.New("it cannot be served")
		}
		return nil
	}}
	h, _ := take(t, nil, w.table().Whole(), refuse)
	sent := w.table()
	w.set(route("a", 2))
	h, _ = take(t, h, w.table().DeltaFrom(sent), refuse)
	served(t, h, "a", 1)
	if h.Told().Version != w.table().Version || h.Told().Digest != w.table().Digest {
		t.Errorf("acknowledged are %s %s, the plane sent %s %s", h.Told().Version, h.Told().Digest, w.table().Version, w.table().Digest)
	}
	if h.Serving().Digest == h.Told().Digest {
		t.Error("what is served has the digest of what was told")
	}
	sent = w.table()
	w.set(route("b", 2))
	h, _ = take(t, h, w.table().DeltaFrom(sent), refuse) // it applies to what was told
	served(t, h, "a", 1)
	served(t, h, "b", 2)
}
