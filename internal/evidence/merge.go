package evidence

import "github.com/fairlead-platform/fairlead/internal/eligibility"

// Seen is what one reporter saw of one instance in one second, by the
// instance's identity: a relay knows no handles.
type Seen struct {
	Instance            string
	OK, Failed, Refused uint32 // Failed includes Refused
}

// Merged is what all reporters of one relay saw of one instance in one second.
type Merged struct {
	Instance string
	eligibility.Outcomes
}

// Merger does at a relay what [Ingest] does with each reporter's second, so that
// what control adds up from relays is what it would have added up from their
// reporters. Its state grows with instances, and ends with each second. It
// belongs to one goroutine at a time.
type Merger struct {
	// Service that an instance is of, by the views that the relay holds.
	Service func(instance string) (service string, known bool)

	rows      map[string]*merging // :: instance → what was seen of it
	order     []*merging
	second    int64
	reports   int
	passes    uint64
	discarded map[Reason]uint64
	batch     map[string]fare // :: service → of the batch in hand
}

// merging is an instance's open second.
type merging struct {
	Merged
	pass uint64 // over a batch that named it last
}

// NewMerger makes one that has seen nothing.
func NewMerger(service func(instance string) (string, bool)) *Merger {
	return &Merger{Service: service, rows: map[string]*merging{}, discarded: map[Reason]uint64{}, batch: map[string]fare{}}
}

// Teller is one reporter at a relay, by its identity. It belongs to one stream
// at a time.
type Teller struct {
	hash  uint64
	last  uint64
	taken batches
}

// NewTeller makes the state of a reporter.
func NewTeller(identity string) *Teller { return &Teller{hash: reporterHash(identity)} }

// Take takes a reporter's second in. Rows that cannot be attributed are
// discarded one by one; the rest counts.
func (m *Merger) Take(t *Teller, number uint64, seen []Seen) {
	switch {
	case len(seen) > MaxRows:
		m.discarded[TooLarge] += uint64(len(seen))
		return
	case number <= t.last:
		m.discarded[Repeated] += uint64(len(seen))
		return
	}
	t.last = number
	if !t.taken.more(m.second) {
		m.discarded[TooMany] += uint64(len(seen))
		return
	}
	m.reports++
	clear(m.batch)
	m.passes += 2
	for i := range seen { // first what the reporter saw in all, for comparison
		if service, row, ok := m.row(&seen[i]); ok && m.once(seen[i].Instance, m.passes) {
			n, failed := row.capped()
			f := m.batch[service]
			m.batch[service] = fare{f.n + uint64(n), f.failed + uint64(failed)}
		}
	}
	for i := range seen {
		switch service, row, ok := m.row(&seen[i]); {
		case !ok:
			m.discarded[m.why(&row)]++
		case !m.once(seen[i].Instance, m.passes+1):
			m.discarded[TooMany]++
		default:
			m.add(t, seen[i].Instance, m.batch[service], row)
		}
	}
}

func (m *Merger) row(s *Seen) (service string, row Row, ok bool) {
	row = Row{OK: s.OK, Failed: s.Failed, Refused: s.Refused}
	service, ok = m.Service(s.Instance)
	return service, row, ok && row.honest()
}

func (m *Merger) why(row *Row) Reason {
	if row.honest() {
		return UnknownInstance
	}
	return OutOfRange
}

// once says whether this is the first row about the instance in a pass over a
// batch. It makes the instance's open second.
func (m *Merger) once(instance string, pass uint64) bool {
	x := m.rows[instance]
	if x == nil {
		x = &merging{Merged: Merged{Instance: instance}}
		m.rows[instance] = x
		m.order = append(m.order, x)
	}
	first := x.pass != pass
	x.pass = pass
	return first
}

func (m *Merger) add(t *Teller, instance string, all fare, row Row) {
	if n, failed := row.capped(); n > 0 {
		join(&m.rows[instance].Outcomes, seen(t.hash, all, n, failed, row.Refused > 0))
	}
}

// Seal ends the second: what was seen in it, in the order in which instances
// were told of first, and how many reports it is of.
func (m *Merger) Seal() (rows []Merged, reports int) {
	for _, x := range m.order {
		if x.OK+x.Failed > 0 {
			rows = append(rows, x.Merged)
		}
	}
	reports = m.reports
	m.rows, m.order, m.reports = map[string]*merging{}, nil, 0
	m.second++
	return rows, reports
}

// Discarded says how much was discarded, by reason.
func (m *Merger) Discarded() map[Reason]uint64 { return m.discarded }

// Relay is one relay's stream. It belongs to one goroutine at a time.
type Relay struct{ last uint64 }

// MergedRow is what a relay's reporters saw of one instance, by its handle.
type MergedRow struct {
	Instance uint32
	eligibility.Outcomes
}

// MaxMerged rows of a relay's batch; a longer one is refused whole.
const MaxMerged = 100_000

// Merged takes a relay's second in, which so many reports were merged into. What
// so many could not have said is discarded.
func (in *Ingest) Merged(r *Relay, number uint64, reports uint32, rows []MergedRow) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case len(rows) > MaxMerged:
		in.discarded[TooLarge] += uint64(len(rows))
		return
	case number <= r.last:
		in.discarded[Repeated] += uint64(len(rows))
		return
	}
	r.last = number
	for i := range rows {
		x := &rows[i].Outcomes
		o := in.instances[rows[i].Instance]
		switch {
		case o == nil:
			in.discarded[UnknownInstance]++
		case !o.Profile.Outcomes:
			in.discarded[Undeclared]++
		case !possible(x, reports):
			in.discarded[OutOfRange]++
		case x.OK+x.Failed > 0:
			in.touch(o)
			join(&o.row, *x)
			if x.Refusing != 0 {
				in.refusal(o)
			}
			if o.early != in.tick {
				o.service.now.n += uint64(x.OK + x.Failed)
				o.service.now.failed += uint64(x.Failed)
			}
		}
	}
}

// possible says whether so many reports, each capped, can say it.
func possible(x *eligibility.Outcomes, reports uint32) bool {
	all := uint64(x.OK) + uint64(x.Failed)
	return all <= Cap*uint64(reports) && uint64(x.Reporters.Count()) <= uint64(reports) && (all == 0) == (x.Reporters == 0) &&
		uint64(x.Compared) <= all && x.Expected <= uint64(x.Compared)*1000 &&
		x.Hurt&^x.Reporters == 0 && x.Refusing&^x.Reporters == 0 && (x.Failed > 0 || x.Hurt|x.Refusing == 0)
}
