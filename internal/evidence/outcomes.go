package evidence

import "github.com/fairlead-platform/fairlead/internal/eligibility"

// Row is what one reporter saw of one instance in one second.
type Row struct {
	Instance uint32 // its handle
	OK       uint32
	Failed   uint32 // refused ones included
	Refused  uint32
	// Unanswered are those whose callers gave up on an instance that sent nobody a
	// byte meanwhile; failed ones too.
	Unanswered uint32
}

// Batch is one reporter's second. Numbers rise; a number that was taken before
// is not taken again.
type Batch struct {
	Number uint64
	Caller Caller
	Rows   []Row
}

// Reporter is one caller, by its identity. It belongs to one stream at a time.
type Reporter struct {
	hash  uint64
	last  uint64
	taken batches
	from  origin
	batch map[*service]fare // of the batch in hand; kept to be used again
}

// batches counts a reporter's batches of a second: many of them buy no more
// weight than many results do.
type batches struct {
	tick  int64
	count int
}

// mostBatches of a reporter count in a second: two of its own seconds may come
// within one of ours, each longer than a batch.
const mostBatches = 4

// more says whether one more counts in the second.
func (b *batches) more(tick int64) bool {
	if b.tick != tick {
		*b = batches{tick: tick}
	}
	b.count++
	return b.count <= mostBatches
}

// fare is how many results there were of a service's instances.
type fare struct{ n, failed uint64 }

// fails says that most of the results failed.
func (f fare) fails() bool { return f.n > 0 && 2*f.failed >= f.n }

// add puts a row of outcomes to it.
func (f *fare) add(row eligibility.Outcomes) {
	f.n, f.failed = f.n+uint64(row.OK+row.Failed), f.failed+uint64(row.Failed)
}

func (f *fare) take(x fare) { f.n, f.failed = f.n-x.n, f.failed-x.failed }

func (f *fare) give(x fare) { f.n, f.failed = f.n+x.n, f.failed+x.failed }

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
	if !r.taken.more(in.tick) {
		in.discarded[TooMany] += uint64(len(b.Rows))
		return
	}
	if r.from.say(b.Caller); r.from.misnamed > 0 {
		in.discarded[Misnamed] += r.from.misnamed
	}
	clear(r.batch)
	in.batches += 2
	in.found = in.found[:0]
	for i := range b.Rows { // first what the reporter saw in all, for comparison
		o, n, failed := in.row(&b.Rows[i])
		in.found = append(in.found, found{o, n, failed})
		if o != nil && o.once(in.batches) {
			f := r.batch[o.service]
			f.n, f.failed = f.n+uint64(n), f.failed+uint64(failed)
			r.batch[o.service] = f
		}
	}
	for s, f := range r.batch {
		for k := range kinds {
			if f.n > 0 {
				in.tell(s, k, tallyOf(r.from.names[k], r.hash, f))
			}
		}
	}
	for i, x := range in.found {
		switch {
		case x.o == nil:
			in.discarded[in.why(&b.Rows[i])]++
		case !x.o.once(in.batches + 1):
			in.discarded[TooMany]++
		default:
			in.add(r, x.o, x.n, x.failed, &b.Rows[i])
		}
	}
}

// found is the instance that a row of the batch in hand is about, and its capped
// counts.
type found struct {
	o         *open
	n, failed uint32
}

// once says whether this is the first row about the instance in a pass over a
// batch: a batch has one of each.
func (o *open) once(pass uint64) bool {
	first := o.pass != pass
	o.pass = pass
	return first
}

// row is the instance that a row is about, and its capped counts.
func (in *Ingest) row(row *Row) (o *open, n, failed uint32) {
	o = in.instances[row.Instance]
	if o == nil || !o.heard || !row.honest() {
		return nil, 0, 0
	}
	n, failed = row.capped()
	return o, n, failed
}

// honest says whether the counts can be true.
func (row *Row) honest() bool {
	return row.OK <= maxCount && row.Failed <= maxCount && row.Refused <= row.Failed && row.Unanswered <= row.Failed
}

// capped is what of a row counts.
func (row *Row) capped() (n, failed uint32) {
	n, failed = row.OK+row.Failed, row.Failed
	if n > Cap {
		failed = (failed*Cap + n - 1) / n // a failure among many is still one
		n = Cap
	}
	return n, failed
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
func (in *Ingest) add(r *Reporter, o *open, n, failed uint32, row *Row) {
	if n == 0 {
		return
	}
	in.touch(o)
	all := r.batch[o.service]
	x := seen(r.hash, all, n, failed, row.Refused > 0)
	x.Unanswered = min(row.Unanswered, failed)
	put(&o.row, &o.parts, &r.from, all, x)
	if row.Refused > 0 {
		in.refusal(o)
	}
	if o.early != in.tick {
		o.service.now.n += uint64(n)
		o.service.now.failed += uint64(failed)
	}
}

// seen is what a row says once it is capped and compared with what the reporter
// saw of the siblings in the same second; not before it, since a fault that all
// share would be new everywhere but in the past. All is of all siblings and of
// the instance itself.
func seen(reporter uint64, all fare, n, failed uint32, refused bool) (x eligibility.Outcomes) {
	x.OK, x.Failed, x.Reporters = n-failed, failed, x.Reporters.With(reporter)
	if refused {
		x.Refusing = x.Refusing.With(reporter)
	}
	others := all.n - uint64(n)
	if others == 0 {
		if failed > 0 {
			x.Hurt = x.Hurt.With(reporter)
		}
		return x
	}
	rate := (all.failed - uint64(failed)) * 1000 / others
	x.Compared, x.Expected = n, uint64(n)*rate
	if uint64(failed)*1000 > uint64(n)*(rate+hurtBy) {
		x.Hurt = x.Hurt.With(reporter)
	}
	return x
}

// join puts what was seen to what others saw in the same second.
func join(to *eligibility.Outcomes, x eligibility.Outcomes) {
	to.OK += x.OK
	to.Failed += x.Failed
	to.Unanswered += x.Unanswered
	to.Compared += x.Compared
	to.Expected += x.Expected
	to.Reporters |= x.Reporters
	to.Hurt |= x.Hurt
	to.Refusing |= x.Refusing
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
