package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// plane publishes the views of one service for a test.
type plane struct {
	epoch   Epoch
	counter uint64
}

func newPlane(incarnation string, number uint64) *plane {
	return &plane{epoch: Epoch{Incarnation: incarnation, Number: number, Nonce: "n"}}
}

// view has so many endpoints in rotation, from the first, and then so many out.
func (p *plane) view(in, out int) *Service {
	p.counter++
	s := &Service{Name: "s", Version: Version{Incarnation: p.epoch.Incarnation, Epoch: p.epoch.Number, Counter: p.counter}, Epoch: p.epoch}
	for i := range in + out {
		e := Endpoint{ID: fmt.Sprintf("i%03d", i), Address: "a:1", Weight: 1000, Verdict: Eligible}
		if i >= in {
			e.Weight, e.Verdict = 0, Ineligible
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// told takes one view after the other, each as the change from the one before.
func told(t *testing.T, h *HeldService, now time.Duration, views ...*Service) *HeldService {
	t.Helper()
	for _, s := range views {
		var err error
		if h, err = h.Take(s.ChangeFrom(h.Told()), now); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func TestAnEmptyViewEmptiesNothingWithoutThePlanesWord(t *testing.T) {
	p := newPlane("i", 1)
	h := told(t, nil, 0, p.view(4, 0), p.view(0, 0))
	if n := h.Serving().InRotation(); n != 4 || h.Objection() == "" {
		t.Errorf("%d in rotation, objection %q", n, h.Objection())
	}
	if h.Serving().Version != h.Told().Version {
		t.Errorf("it serves under %s what it was told under %s", h.Serving().Version, h.Told().Version)
	}
	for name, say := range map[string]func(*Service){"deleted": func(s *Service) { s.Deleted = true }, "scaled to zero": func(s *Service) { s.Empty = true }} {
		s := p.view(0, 0)
		say(s)
		if h := told(t, h, 0, s); h.Serving().InRotation() != 0 || h.Objection() != "" {
			t.Errorf("%s: %d in rotation, objection %q", name, h.Serving().InRotation(), h.Objection())
		}
	}
	if h := told(t, h, 0, p.view(3, 0)); h.Serving().InRotation() != 3 || h.Objection() != "" {
		t.Errorf("a full view after it: %d in rotation, objection %q", h.Serving().InRotation(), h.Objection())
	}
}

func TestHealthTakesAtMostHalfWithinTenMinutes(t *testing.T) {
	p := newPlane("i", 1)
	h := told(t, nil, 0, p.view(100, 0), p.view(10, 90))
	if n := h.Serving().InRotation(); n != 50 || !strings.Contains(h.Objection(), "40 of these stay") {
		t.Errorf("90 of 100 at once: %d in rotation, objection %q", n, h.Objection())
	}
	h = told(t, nil, 0, p.view(100, 0))
	for i := 1; i <= 10; i++ {
		h = told(t, h, time.Duration(i)*6*time.Second, p.view(100-10*i, 10*i))
	}
	if n := h.Serving().InRotation(); n != 50 {
		t.Errorf("ten times ten of 100 in a minute: %d in rotation", n)
	}
	h = told(t, h, 5*time.Minute, p.view(45, 55))
	if n := h.Serving().InRotation(); n != 50 {
		t.Errorf("within ten minutes: %d in rotation", n)
	}
	h = told(t, h, 11*time.Minute, p.view(30, 70))
	if n := h.Serving().InRotation(); n != 30 || h.Objection() != "" {
		t.Errorf("50 were held for ten minutes, 30 are told: %d in rotation, objection %q", n, h.Objection())
	}
	h = told(t, h, 12*time.Minute, p.view(100, 0))
	if n := h.Serving().InRotation(); n != 100 || h.Objection() != "" {
		t.Errorf("all are back: %d in rotation, objection %q", n, h.Objection())
	}
}

func TestWhatIsGoneWithAnExplanationLeavesAtOnceAndCountsNoMore(t *testing.T) {
	p := newPlane("i", 1)
	h := told(t, nil, 0, p.view(100, 0), p.view(10, 0))
	if n := h.Serving().InRotation(); n != 10 || h.Objection() != "" {
		t.Fatalf("90 of 100 ended: %d in rotation, objection %q", n, h.Objection())
	}
	h = told(t, h, time.Second, p.view(5, 5))
	if n := h.Serving().InRotation(); n != 5 || h.Objection() != "" {
		t.Errorf("half of the rest is out: %d in rotation, objection %q", n, h.Objection())
	}
	h = told(t, h, time.Second, p.view(2, 8))
	if n := h.Serving().InRotation(); n != 5 {
		t.Errorf("8 of the 10 are told to be out: %d in rotation", n)
	}
}

func TestAnotherIncarnationExplainsNothingByAbsence(t *testing.T) {
	p, other := newPlane("i", 7), newPlane("j", 1)
	h := told(t, nil, 0, p.view(10, 0), other.view(2, 0))
	if n := h.Serving().InRotation(); n != 5 || h.Told().Version.Incarnation != "j" {
		t.Fatalf("a restored store knows 2 of 10: %d in rotation under %s", n, h.Told().Version)
	}
	h = told(t, h, time.Second, other.view(3, 0))
	if n := h.Serving().InRotation(); n != 5 {
		t.Errorf("its next view knows 3: %d in rotation", n)
	}
	h = told(t, h, time.Second, other.view(10, 0))
	if n := h.Serving().InRotation(); n != 10 || h.Objection() != "" {
		t.Errorf("it knows all again: %d in rotation, objection %q", n, h.Objection())
	}
}

func TestAnIncarnationThatWasLeftIsFollowedAgainOnlyUnderALeaderThatTookOfficeSince(t *testing.T) {
	old := Epoch{Incarnation: "i", Number: 7, Nonce: "n"}
	var m Marks
	for _, e := range []Epoch{{Incarnation: "i", Number: 6, Nonce: "n"}, old, {Incarnation: "j", Number: 1, Nonce: "n"}} {
		var err error
		if m, _, err = m.Heed(e, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, stale := range []Epoch{old, {Incarnation: "i", Number: 6, Nonce: "n"}, {Incarnation: "i", Number: 7, Nonce: "another"}} {
		if after, _, err := m.Heed(stale, true); err == nil || after.Last() != m.Last() {
			t.Errorf("the epoch %s is followed again", stale)
		}
	}
	if _, _, err := m.Heed(old, true); !errors.Is(err, ErrLeft) || !strings.Contains(err.Error(), "start its control anew") {
		t.Errorf("the refusal does not say the way out: %v", err)
	}
	after, foreign, err := m.Heed(Epoch{Incarnation: "i", Number: 8, Nonce: "n"}, true)
	if err != nil || !foreign || after.Last().Number != 8 {
		t.Errorf("one that took office since: %v, reported: %v", err, foreign)
	}
	if _, _, err := after.Heed(Epoch{Incarnation: "j", Number: 1, Nonce: "n"}, true); !errors.Is(err, ErrLeft) {
		t.Errorf("and the other one is left: %v", err)
	}
}

func TestAServicesVersionNeverFallsWithinAnIncarnation(t *testing.T) {
	p, other := newPlane("i", 7), newPlane("j", 1)
	old := p.view(1, 0)
	h := told(t, nil, 0, old, p.view(3, 0))
	if _, err := h.Take(old.ChangeFrom(nil), 0); !errors.Is(err, ErrOlderVersion) {
		t.Errorf("a replay: %v", err)
	}
	h = told(t, h, 0, other.view(3, 0))
	if _, err := h.Take(old.ChangeFrom(nil), 0); !errors.Is(err, ErrOlderVersion) {
		t.Errorf("a replay after another incarnation: %v", err)
	}
	c := other.view(4, 0).ChangeFrom(h.Told())
	c.Digest[0]++
	if next, err := h.Take(c, 0); !errors.Is(err, ErrDigest) || next != h {
		t.Errorf("a wrong digest: %v", err)
	}
	c.Epoch.Number++
	if _, err := h.Take(c, 0); !errors.Is(err, ErrMalformed) {
		t.Errorf("a version of another epoch than its own: %v", err)
	}
}

func TestAnotherRegionsViewIsNotTaken(t *testing.T) {
	p, other := newPlane("i", 1), newPlane("j", 9)
	in := func(region string, s *Service) *Service {
		s.Version.Region = region
		return s
	}
	h := told(t, nil, 0, p.view(3, 0), in("eu", p.view(3, 0))) // a region may get a name
	for name, s := range map[string]*Service{"of the same incarnation": in("us", p.view(9, 0)), "of its own": in("us", other.view(9, 0)), "without a name": other.view(9, 0)} {
		if next, err := h.Take(s.ChangeFrom(nil), 0); !errors.Is(err, ErrOtherRegion) || next != h {
			t.Errorf("%s: %v", name, err)
		}
	}
	h = told(t, h, 0, in("eu", other.view(9, 0)))
	if n := h.Serving().InRotation(); n != 9 {
		t.Errorf("another incarnation of the same region: %d in rotation", n)
	}
}

func TestWhatWasHeldIsRestoredWithWhatWasKept(t *testing.T) {
	p := newPlane("i", 1)
	h := told(t, nil, 0, p.view(10, 0), p.view(1, 9))
	b, err := json.Marshal(h.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var s ServiceSnapshot
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	r := RestoreService(s)
	if r.Serving().Digest() != h.Serving().Digest() || r.Told().Digest() != h.Told().Digest() || r.Objection() != h.Objection() {
		t.Errorf("restored %+v, held %+v", r.Serving(), h.Serving())
	}
	if r = told(t, r, time.Hour, p.view(0, 10)); r.Serving().InRotation() != 3 {
		t.Errorf("after it health would take all: %d in rotation, want 3 of the 5 held", r.Serving().InRotation())
	}
}

// Whatever a plane says, the client's guards hold.
func TestAClientsGuardsHoldForAnyPlane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlane("i", 1)
		var h *HeldService
		now := time.Duration(0)
		for range rapid.IntRange(1, 12).Draw(t, "views") {
			now += time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second
			if rapid.IntRange(0, 5).Draw(t, "restored") == 0 {
				p = newPlane(rapid.SampledFrom([]string{"j", "k", "l"}).Draw(t, "incarnation"), p.epoch.Number+1)
			}
			s := p.view(rapid.IntRange(0, 8).Draw(t, "in"), rapid.IntRange(0, 8).Draw(t, "out"))
			was := h.Serving()
			next, err := h.Take(s.ChangeFrom(h.Told()), now)
			if err != nil {
				t.Fatal(err)
			}
			gone := 0
			for _, e := range was.endpoints() {
				if _, listed := next.Serving().Endpoint(e.ID); e.In() && !listed {
					gone++
				}
			}
			if floor := (was.InRotation() - gone) / 2; len(s.Endpoints) > 0 && next.Serving().InRotation() < floor {
				t.Fatalf("%d were in rotation, %d ended, and %d are left", was.InRotation(), gone, next.Serving().InRotation())
			}
			if len(s.Endpoints) == 0 && next.Serving().InRotation() != was.InRotation() {
				t.Fatalf("an empty view left %d of %d", next.Serving().InRotation(), was.InRotation())
			}
			if (next.Objection() == "") != (next.Serving().Digest() == next.Told().Digest()) {
				t.Fatalf("the objection is %q", next.Objection())
			}
			h = next
		}
	})
}

func (s *Service) endpoints() []Endpoint {
	if s == nil {
		return nil
	}
	return s.Endpoints
}

func TestOfAServiceWhatIsAcknowledgedIsWhatWasToldAndTheNextChangeAppliesToIt(t *testing.T) {
	p := newPlane("i", 1)
	base, sent := p.view(100, 0), p.view(10, 90)
	h := told(t, nil, 0, base, sent)
	if h.Serving().InRotation() == sent.InRotation() {
		t.Fatal("nothing is kept")
	}
	if h.Told().Version != sent.Version || h.Told().Digest() != sent.Digest() {
		t.Errorf("acknowledged is %s %s, the plane sent %s %s", h.Told().Version, h.Told().Digest(), sent.Version, sent.Digest())
	}
	next := p.view(11, 89)
	h, err := h.Take(next.ChangeFrom(sent), time.Second)
	if err != nil || h.Told().Digest() != next.Digest() {
		t.Errorf("the next change: %v", err)
	}
}
