package routing

import (
	"iter"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Published is a view, and when it was published by the clock of who did.
type Published struct {
	View *view.Service
	At   time.Duration
}

// Without is the view since which none names any of the instances as one to
// pick: who holds it, or a later one, picks none of them. The views come from the
// newest back, without a gap; what was before them is not known, and may have
// named them. False: the newest names one, or there is no view.
func Without(newestFirst iter.Seq[Published], instances []string) (since Published, is bool) {
	for p := range newestFirst {
		if names(p.View, instances) {
			return since, is
		}
		since, is = p, true
	}
	return since, is
}

func names(v *view.Service, instances []string) bool {
	for _, id := range instances {
		if e, _ := v.Endpoint(id); e.In() {
			return true
		}
	}
	return false
}
