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
	Zones, Revisions []Part // each all of it, by who called
}

// Part is what callers of one name saw: the place of the name in a second's
// names, from 1; 0 is of no name, and of those for whom there was no place.
type Part struct {
	Caller int
	eligibility.Outcomes
	Failing eligibility.Sketch // reporters most of whose results failed
}

// MergedSecond is a relay's second.
type MergedSecond struct {
	Rows    []Merged // in the order in which instances were told of first
	Callers []string // names that parts speak of
	Reports int      // how many there were
}

// MaxCallers names of a relay's second; those beyond are told as of no name.
const MaxCallers = 10_000

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
	parts [kinds]parts
	pass  uint64 // over a batch that named it last
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
	from  origin
}

// From says where the reporter's calls come from, from its next second on.
func (t *Teller) From(c Caller) { t.from.say(c) }

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
	if t.from.misnamed > 0 {
		m.discarded[Misnamed] += t.from.misnamed
	}
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
		x, o := seen(t.hash, all, n, failed, row.Refused > 0), m.rows[instance]
		join(&o.Outcomes, x)
		for k := range kinds {
			o.parts[k].join(t.from.names[k], x, failing(t.hash, n, failed))
		}
	}
}

// Seal ends the second: what was seen in it.
func (m *Merger) Seal() MergedSecond {
	out := MergedSecond{Reports: m.reports}
	places := map[label]int{} // :: name → its place in Callers, from 1
	for _, x := range m.order {
		if x.OK+x.Failed == 0 {
			continue
		}
		x.Zones, x.Revisions = out.told(x.parts[byZone], places), out.told(x.parts[byRevision], places)
		out.Rows = append(out.Rows, x.Merged)
	}
	m.rows, m.order, m.reports = map[string]*merging{}, nil, 0
	m.second++
	return out
}

func (s *MergedSecond) told(ps parts, places map[label]int) (out []Part) {
	for _, p := range ps {
		at, known := places[p.caller]
		if !known && p.caller != (label{}) && len(s.Callers) < MaxCallers {
			s.Callers = append(s.Callers, p.caller.Value())
			at = len(s.Callers)
			places[p.caller] = at
		}
		out = append(out, Part{at, p.Outcomes, p.failing})
	}
	return out
}

// Discarded says how much was discarded, by reason.
func (m *Merger) Discarded() map[Reason]uint64 { return m.discarded }

// Relay is one relay's stream. It belongs to one goroutine at a time.
type Relay struct{ last uint64 }

// MergedRow is what a relay's reporters saw of one instance, by its handle.
type MergedRow struct {
	Instance uint32
	eligibility.Outcomes
	Zones, Revisions []Part // each all of it, or none where a relay does not tell them apart
}

// MergedBatch is a relay's second, by handles.
type MergedBatch struct {
	Number  uint64
	Reports uint32 // what so many could not have said is discarded
	Callers []string
	Rows    []MergedRow
}

// MaxMerged rows of a relay's batch; a longer one is refused whole.
const MaxMerged = 100_000

// Merged takes a relay's second in.
func (in *Ingest) Merged(r *Relay, b MergedBatch) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case len(b.Rows) > MaxMerged || len(b.Callers) > MaxCallers:
		in.discarded[TooLarge] += uint64(len(b.Rows))
		return
	case b.Number <= r.last:
		in.discarded[Repeated] += uint64(len(b.Rows))
		return
	}
	r.last = b.Number
	names := in.names(b.Callers)
	for i := range b.Rows {
		x := &b.Rows[i].Outcomes
		o := in.instances[b.Rows[i].Instance]
		switch {
		case o == nil:
			in.discarded[UnknownInstance]++
		case !o.Profile.Outcomes:
			in.discarded[Undeclared]++
		case !possible(x, b.Reports) || !whole(x, b.Rows[i].Zones) || !whole(x, b.Rows[i].Revisions):
			in.discarded[OutOfRange]++
		case x.OK+x.Failed > 0:
			in.touch(o)
			join(&o.row, *x)
			in.apart(o, byZone, &b.Rows[i], b.Rows[i].Zones, names)
			in.apart(o, byRevision, &b.Rows[i], b.Rows[i].Revisions, names)
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

// names of a relay's second, by their places.
func (in *Ingest) names(texts []string) []label {
	out := make([]label, len(texts)+1)
	for i, text := range texts {
		ok := false
		if out[i+1], ok = nameOf(text); !ok {
			in.discarded[Misnamed]++
		}
	}
	return out
}

// apart puts what a relay's reporters saw to what callers of each name saw.
func (in *Ingest) apart(o *open, k kind, row *MergedRow, told []Part, names []label) {
	if len(told) == 0 {
		o.parts[k].join(label{}, row.Outcomes, 0)
	}
	for _, p := range told {
		c := label{}
		if p.Caller >= 0 && p.Caller < len(names) {
			c = names[p.Caller]
		}
		if o.parts[k].join(c, p.Outcomes, p.Failing) {
			in.crowded++
		}
	}
}

// whole says whether the parts, if there are any, are all of the row.
func whole(x *eligibility.Outcomes, told []Part) bool {
	if len(told) == 0 || len(told) > MostCallers+1 {
		return len(told) == 0
	}
	var ok, failed, compared, expected uint64
	sum := eligibility.Outcomes{}
	for _, p := range told {
		if p.Expected > x.Expected || p.Failing&^p.Reporters != 0 || (p.Failed == 0) && p.Failing != 0 {
			return false
		}
		ok, failed, compared, expected = ok+uint64(p.OK), failed+uint64(p.Failed), compared+uint64(p.Compared), expected+p.Expected
		join(&sum, p.Outcomes)
	}
	return ok == uint64(x.OK) && failed == uint64(x.Failed) && compared == uint64(x.Compared) && expected == x.Expected &&
		sum.Reporters == x.Reporters && sum.Hurt == x.Hurt && sum.Refusing == x.Refusing
}

// possible says whether so many reports, each capped, can say it.
func possible(x *eligibility.Outcomes, reports uint32) bool {
	all := uint64(x.OK) + uint64(x.Failed)
	return all <= Cap*uint64(reports) && uint64(x.Reporters.Count()) <= uint64(reports) && (all == 0) == (x.Reporters == 0) &&
		uint64(x.Compared) <= all && x.Expected <= uint64(x.Compared)*1000 &&
		x.Hurt&^x.Reporters == 0 && x.Refusing&^x.Reporters == 0 && (x.Failed > 0 || x.Hurt|x.Refusing == 0)
}
