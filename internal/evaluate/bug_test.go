package evaluate

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

// reaches has a caller take a view over a real stream, and waits until it has
// said that it did.
func reaches(t *testing.T, p *resolvertest.Plane, r *resolver.Resolver, taken func() bool, v *view.Service) {
	t.Helper()
	p.Publish(*v)
	deadline := time.After(30 * time.Second)
	for {
		changed := r.Changed()
		if taken() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("the caller does not take it: %+v", r.Status())
		}
	}
}

// picksOf are the instances that picks are of, none of which may fail.
func picksOf(t *testing.T, r *resolver.Resolver) map[string]bool {
	t.Helper()
	of := map[string]bool{}
	for range 2000 {
		p, err := r.Pick("s")
		if err != nil {
			t.Fatalf("a pick fails: %v", err)
		}
		of[p.ID()] = true
		p.Done(resolver.Good)
	}
	return of
}

// TestABugThatMarksEverythingIneligibleStopsAtThePlanesGuardAndWithoutThatAtTheCallersOwn
// by the real evaluator, the real stream and the real resolver. The bug is in
// what is fed in: of every instance it is taken to have said that it is not ready. The guard
// is taken out between the evaluator and the stream: what it disregarded is
// followed after all.
func TestABugThatMarksEverythingIneligibleStopsAtThePlanesGuardAndWithoutThatAtTheCallersOwn(t *testing.T) {
	const n = 8
	zones := []string{"a", "b", "c"}
	p := newPlane(n, zones...)
	p.run(60, good)
	plane := resolvertest.New(t)
	healthy := p.published(t)
	plane.Publish(*healthy)
	r := plane.Open(t, "s")
	version := func() uint64 {
		v, err := r.Resolve("s")
		if err != nil || v.View == nil {
			return 0
		}
		return v.View.Version.Counter
	}
	before := uint64(0)
	reaches(t, plane, r, func() bool { before = version(); return before > 0 }, healthy)
	if of := picksOf(t, r); len(of) != n*len(zones) {
		t.Fatalf("before the bug %d are picked", len(of))
	}

	for range 30 {
		for _, x := range p.reg.Of("s") {
			p.ingest.Self(x.Handle, x.Handle, eligibility.Self{})
		}
		p.run(1, good)
	}
	guarded := p.published(t)
	ineligible := 0
	for _, e := range guarded.Endpoints {
		if e.Verdict == view.Ineligible {
			ineligible++
		}
	}
	if ineligible != n*len(zones) {
		t.Fatalf("the bug marks %d of %d: %+v", ineligible, n*len(zones), guarded)
	}
	if guarded.InRotation() < n*len(zones)/2 || len(guarded.Marks) != len(zones) || !guarded.Marks[0].DegradedConfidence {
		t.Errorf("the plane's guard leaves %d in rotation, and says %+v", guarded.InRotation(), guarded.Marks)
	}
	at := version()
	reaches(t, plane, r, func() bool { return version() > at }, guarded)
	if of := picksOf(t, r); len(of) < n*len(zones)/2 {
		t.Errorf("behind the guard %d are picked", len(of))
	}

	unguarded := *guarded
	unguarded.Marks, unguarded.Sum, unguarded.Endpoints = nil, view.Digest{}, nil
	for _, e := range guarded.Endpoints {
		e.Weight = 0
		unguarded.Endpoints = append(unguarded.Endpoints, e)
	}
	at = version()
	reaches(t, plane, r, func() bool { return version() > at }, &unguarded)
	resolution, err := r.Resolve("s")
	if err != nil || resolution.Objection == "" {
		t.Errorf("the caller says nothing of its own guard: %+v, %v", resolution, err)
	}
	if of := picksOf(t, r); len(of) < n*len(zones)/2 {
		t.Errorf("behind the caller's own guard %d are picked", len(of))
	}
	empty := unguarded
	empty.Endpoints = nil
	at = version()
	reaches(t, plane, r, func() bool { return version() > at }, &empty)
	if of := picksOf(t, r); len(of) < n*len(zones)/2 {
		t.Errorf("of a view that names nobody %d are picked", len(of))
	}
}
