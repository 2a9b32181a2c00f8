package eligibility

// Watch remembers, of one prober, how its targets looked in the last interval,
// and so whether it is to be doubted: one that sees most of its targets fail
// is more likely broken, or cut off, than all of them at once.
type Watch struct {
	interval int64
	latest   map[uint32]glimpse // :: instance's handle → how it looked last
	failed   int
}

type glimpse struct {
	at     int64
	failed bool
}

// suspectFrom targets a prober's own picture counts; below them, half of it is
// chance.
const suspectFrom = 5

// NewWatch watches a prober that looks at each target once in so many seconds.
func NewWatch(interval int) *Watch {
	return &Watch{interval: int64(interval), latest: map[uint32]glimpse{}}
}

// See notes a look. All looks of one tick are noted before the tick is
// sealed, so that what a prober sees at once is judged at once.
func (w *Watch) See(instance uint32, r Result, now int64) {
	w.drop(instance)
	g := glimpse{now, r != Good}
	w.latest[instance] = g
	if g.failed {
		w.failed++
	}
}

func (w *Watch) drop(instance uint32) {
	if w.latest[instance].failed {
		w.failed--
	}
	delete(w.latest, instance)
}

// Suspect reports whether the prober saw over half of five or more targets
// fail within one interval.
func (w *Watch) Suspect(now int64) bool {
	failed, of := w.Seen(now)
	return of >= suspectFrom && 2*failed > of
}

// Seen says how many targets failed, of how many that were looked at within the
// interval.
func (w *Watch) Seen(now int64) (failed, of int) {
	for i, g := range w.latest {
		if now-g.at > w.interval {
			w.drop(i)
		}
	}
	return w.failed, len(w.latest)
}
