package evidence

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Look is one look of a prober at one target.
type Look struct {
	Instance uint32
	Result   eligibility.Result
	// Age of the look as it came. One that is too old is discarded: it would
	// count as of now.
	Age time.Duration
}

const (
	// oldestLook is how old a look may be that still says how its target is.
	oldestLook = 10 * time.Second
	// looksCap is how many of a prober's looks at one target count in a second:
	// two in the shortest interval, one more each for a refusal that is looked at
	// again, asked about, and looked around, and what a stalled stream brings.
	looksCap = 8
)

// Probes takes a prober's looks in. A look at a target that is not assigned to
// it, now or until the assignment before, is discarded.
func (in *Ingest) Probes(prober uint32, looks []Look) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(looks) > MaxRows {
		in.discarded[TooLarge] += uint64(len(looks))
		return
	}
	w := in.watches[prober]
	if w == nil {
		w = eligibility.NewWatch(in.interval)
		in.watches[prober] = w
	}
	for _, l := range looks {
		o := in.instances[l.Instance]
		switch {
		case o == nil:
			in.discarded[UnknownInstance]++
		case !o.Profile.Probe:
			in.discarded[Undeclared]++
		case !slices.Contains(o.Probers, prober) && !slices.Contains(o.Before, prober):
			in.discarded[NotAssigned]++
		case l.Result > eligibility.Refused || l.Age < 0:
			in.discarded[OutOfRange]++
		case l.Age > oldestLook:
			in.discarded[TooOld]++
		case o.looksBy(prober) >= looksCap:
			in.discarded[TooMany]++
		default:
			w.See(l.Instance, l.Result, in.tick)
			in.touch(o)
			o.probes = append(o.probes, eligibility.Probe{Prober: prober, Result: l.Result, Count: 1})
			if l.Result == eligibility.Refused {
				in.refusal(o)
			}
		}
	}
}

// looksBy is how many of a prober's looks the open second holds.
func (o *open) looksBy(prober uint32) (n int) {
	for _, p := range o.probes {
		if p.Prober == prober {
			n++
		}
	}
	return n
}

// Suspects are the probers that see most of their targets fail.
func (in *Ingest) Suspects() (probers []uint32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for p, w := range in.watches {
		if w.Suspect(in.tick) {
			probers = append(probers, p)
		}
	}
	slices.Sort(probers)
	return probers
}

// Seen says how many of a prober's targets failed when it looked at them last,
// of how many that it looked at within an interval.
func (in *Ingest) Seen(prober uint32) (failed, of int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if w := in.watches[prober]; w != nil {
		return w.Seen(in.tick)
	}
	return 0, 0
}

// Self takes a workload's word about itself: by whose identity it came decides
// whom it is about, so that about must be the same.
func (in *Ingest) Self(by, about uint32, s eligibility.Self) {
	in.mu.Lock()
	defer in.mu.Unlock()
	o := in.instances[about]
	switch {
	case o == nil:
		in.discarded[UnknownInstance]++
	case by != about:
		in.discarded[NotItself]++
	case !o.Profile.Self:
		in.discarded[Undeclared]++
	case len(s.Dependencies) > maxDependencies || slices.ContainsFunc(s.Dependencies, func(p eligibility.Permille) bool { return p > 1000 }):
		in.discarded[OutOfRange]++
	default:
		in.touch(o)
		o.self = &s
	}
}

const maxDependencies = 64
