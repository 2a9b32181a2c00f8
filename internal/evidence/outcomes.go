package evidence

import "github.com/fairlead-platform/fairlead/internal/eligibility"

// Row is what one reporter saw of one instance in one second.
type Row struct {
	Instance uint32 // its handle
	OK       uint32
	Failed   uint32 // refused ones included
	Refused  uint32
}

// Batch is one reporter's second. Numbers rise; a number that was taken before
// is not taken again.
type Batch struct {
	Number uint64
	Rows   []Row
}

// Reporter is one caller, by its identity. It belongs to one stream at a time.
type Reporter struct {
	hash  uint64
	last  uint64
	batch map[*service]fare // of the batch in hand; kept to be used again
}

// fare is how many results there were of a service's instances.
type fare struct{ n, failed uint64 }

// add puts a row of outcomes to it.
func (f *fare) add(row eligibility.Outcomes) {
	f.n, f.failed = f.n+uint64(row.OK+row.Failed), f.failed+uint64(row.Failed)
}

// reporterHash makes the bit of a reporter the same on every machine: sealed
// rows are compared between them.
func reporterHash(identity string) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for i := range len(identity) {
		h = (h ^ uint64(identity[i])) * prime
	}
	return h ^ h>>32 // the sketch reads the low bits
}

// NewReporter makes the state of a reporter, by its identity.
func NewReporter(identity string) *Reporter {
	return &Reporter{hash: reporterHash(identity), batch: map[*service]fare{}}
}

// Outcomes takes a batch in. Rows that cannot be attributed are discarded one
// by one; the rest counts.
func (in *Ingest) Outcomes(r *Reporter, b Batch) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case len(b.Rows) > MaxRows:
		in.discarded[TooLarge] += uint64(len(b.Rows))
		return
	case b.Number <= r.last:
		in.discarded[Repeated] += uint64(len(b.Rows))
		return
	}
	r.last = b.Number
	clear(r.batch)
	for i := range b.Rows { // first what the reporter saw in all, for comparison
		if o, n, failed := in.row(&b.Rows[i]); o != nil {
			f := r.batch[o.service]
			f.n, f.failed = f.n+uint64(n), f.failed+uint64(failed)
			r.batch[o.service] = f
		}
	}
	for i := range b.Rows {
		if o, n, failed := in.row(&b.Rows[i]); o != nil {
			in.add(r, o, n, failed, b.Rows[i].Refused > 0)
		} else {
			in.discarded[in.why(&b.Rows[i])]++
		}
	}
}

// row is the instance that a row is about, and its capped counts.
func (in *Ingest) row(row *Row) (o *open, n, failed uint32) {
	o = in.instances[row.Instance]
	if o == nil || !o.Profile.Outcomes || row.OK > maxCount || row.Failed > maxCount || row.Refused > row.Failed {
		return nil, 0, 0
	}
	n, failed = row.OK+row.Failed, row.Failed
	if n > Cap {
		failed = (failed*Cap + n - 1) / n // a failure among many is still one
		n = Cap
	}
	return o, n, failed
}

func (in *Ingest) why(row *Row) Reason {
	switch o := in.instances[row.Instance]; {
	case o == nil:
		return UnknownInstance
	case !o.Profile.Outcomes:
		return Undeclared
	}
	return OutOfRange
}

// add puts a row to the instance's open second.
func (in *Ingest) add(r *Reporter, o *open, n, failed uint32, refused bool) {
	if n == 0 {
		return
	}
	in.touch(o)
	o.row.OK += n - failed
	o.row.Failed += failed
	o.row.Reporters = o.row.Reporters.With(r.hash)
	if refused {
		o.row.Refusing = o.row.Refusing.With(r.hash)
		in.refusal(o)
	}
	if o.early != in.tick {
		o.service.now.n += uint64(n)
		o.service.now.failed += uint64(failed)
	}
	// What the reporter saw of the siblings in the same second; not before it,
	// since a fault that all share would be new everywhere but in the past.
	all := r.batch[o.service]
	if others := all.n - uint64(n); others > 0 {
		rate := (all.failed - uint64(failed)) * 1000 / others
		o.row.Compared += n
		o.row.Expected += uint64(n) * rate
		if uint64(failed)*1000 > uint64(n)*(rate+hurtBy) {
			o.row.Hurt = o.row.Hurt.With(r.hash)
		}
		return
	}
	if failed > 0 {
		o.row.Hurt = o.row.Hurt.With(r.hash)
	}
}

// compare gives what came from reporters that called no sibling in this second
// the siblings' results by all reporters to be compared with.
func (o *open) compare() {
	alone := uint64(o.row.OK + o.row.Failed - o.row.Compared)
	others := o.service.now.n - uint64(o.row.OK+o.row.Failed)
	if alone == 0 || others == 0 {
		return
	}
	o.row.Compared += uint32(alone)
	o.row.Expected += alone * ((o.service.now.failed - uint64(o.row.Failed)) * 1000 / others)
}
