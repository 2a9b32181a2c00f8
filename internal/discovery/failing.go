package discovery

import "github.com/fairlead-platform/fairlead/internal/evidence"

// fares is how the requests of a service fare, whichever instance they went to.
// What fails everywhere is held against no instance, and would else be told
// nowhere but in the evidence of each.
type fares struct {
	results, failed float64 // of the last seconds, the earlier the less
	bad             int     // ticks in a row in which most failed
	alarmed         bool
}

const (
	faresKept = 0.875 // of what was counted, from one tick to the next
	faresFew  = 50    // results below which nothing is said
	faresBad  = 10    // ticks in a row: by then an instance that fails alone has left
)

// failing raises and clears the alarms of services most of whose requests fail.
func (t *term) failing(tick evidence.Tick) {
	for _, row := range tick.Rows {
		if len(row.Outcomes) == 0 {
			continue
		}
		x, known := t.reg.ByHandle(row.Instance)
		if !known {
			continue
		}
		f := t.fares[x.Service]
		if f == nil {
			f = &fares{}
			t.fares[x.Service] = f
		}
		for _, o := range row.Outcomes {
			f.results += float64(o.OK) + float64(o.Failed)
			f.failed += float64(o.Failed)
		}
	}
	for name, f := range t.fares {
		text := ""
		if f.turn() {
			text = "most requests fail, and at no instance more than at its siblings, so that none leaves for it: look at what all of them share, or their callers do"
		}
		t.alarm(name, AlarmFailing, text)
		if f.results < 1 && !f.alarmed {
			delete(t.fares, name)
		}
	}
}

// turn ends a tick, and reports whether most requests have failed for a while.
// Once so, it is so until fewer than a quarter do, or hardly any are made.
func (f *fares) turn() bool {
	most := f.results >= faresFew && 2*f.failed >= f.results
	f.bad++
	if !most {
		f.bad = 0
	}
	switch {
	case f.bad >= faresBad:
		f.alarmed = true
	case f.results < faresFew/10 || 4*f.failed < f.results:
		f.alarmed = false
	}
	f.results, f.failed = f.results*faresKept, f.failed*faresKept
	return f.alarmed
}
