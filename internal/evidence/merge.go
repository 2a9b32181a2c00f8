package evidence

import (
	"cmp"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

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
	Apart
}

// Apart is what those saw of an instance most of whose results of its service
// failed, by who called: each all that they saw. Well is what the others saw. It
// is empty where there are no such.
type Apart struct {
	Zones, Revisions []Part
	Well             eligibility.Outcomes
}

// Part is what callers of one name saw: the place of the name in a second's
// names, from 1; 0 is of no name, and of those for whom there was no place.
type Part struct {
	Caller int
	eligibility.Outcomes
}

// Group is what callers of one name, of a zone or of a revision, saw of a service
// in all. Caller is as in a part; 0 says only that some of no name called.
type Group struct {
	Service            string
	Revision           bool
	Caller             int
	Results, Failed    uint64
	Reporters, Failing eligibility.Sketch // all, and those most of whose results failed
}

// MergedSecond is a relay's second.
type MergedSecond struct {
	Rows    []Merged // in the order in which instances were told of first
	Groups  []Group  // by service
	Callers []string // names that parts and groups speak of
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
	batch     map[string]fare            // :: service → of the batch in hand
	tallies   map[string]*[kinds][]tally // :: service → of its callers in the second
	unnamed   map[string]*[kinds]bool    // :: service → some of no name called
}

// merging is an instance's open second.
type merging struct {
	Merged
	parts [kinds]parts
	pass  uint64 // over a batch that named it last
}

// NewMerger makes one that has seen nothing.
func NewMerger(service func(instance string) (string, bool)) *Merger {
	return &Merger{Service: service, rows: map[string]*merging{}, discarded: map[Reason]uint64{}, batch: map[string]fare{}, tallies: map[string]*[kinds][]tally{}, unnamed: map[string]*[kinds]bool{}}
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
	for service, f := range m.batch {
		for k := range kinds {
			if f.n > 0 {
				m.tell(service, k, tallyOf(t.from.names[k], t.hash, f))
			}
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
		o := m.rows[instance]
		put(&o.Outcomes, &o.parts, &t.from, all, seen(t.hash, all, n, failed, row.Refused > 0))
	}
}

// tell notes what callers of one name saw of a service, in all.
func (m *Merger) tell(service string, k kind, t tally) {
	if t.caller == (label{}) {
		if m.unnamed[service] == nil {
			m.unnamed[service] = &[kinds]bool{}
		}
		m.unnamed[service][k] = true
		return
	}
	if m.tallies[service] == nil {
		m.tallies[service] = &[kinds][]tally{}
	}
	all := &m.tallies[service][k]
	if at, _ := placed(all, t.caller, func(x tally) label { return x.caller }, func() tally { return tally{caller: t.caller} }); at >= 0 {
		(*all)[at].add(&t)
	}
}

// Seal ends the second: what was seen in it.
func (m *Merger) Seal() MergedSecond {
	out := MergedSecond{Reports: m.reports}
	places := map[label]int{} // :: name → its place in Callers, from 1
	for _, x := range m.order {
		well := x.Outcomes
		if x.Outcomes = whole(well, &x.parts); x.OK+x.Failed == 0 {
			continue
		}
		if len(x.parts[byZone]) > 0 {
			x.Apart = Apart{out.told(x.parts[byZone], places), out.told(x.parts[byRevision], places), well}
		}
		out.Rows = append(out.Rows, x.Merged)
	}
	for service, all := range m.tallies {
		for k := range kinds {
			for _, t := range all[k] {
				out.Groups = append(out.Groups, Group{service, k == byRevision, out.place(t.caller, places), t.results, t.failed, t.reporters, t.failing})
			}
		}
	}
	for service, some := range m.unnamed {
		for k := range kinds {
			if some[k] && m.tallies[service] != nil {
				out.Groups = append(out.Groups, Group{Service: service, Revision: k == byRevision})
			}
		}
	}
	slices.SortStableFunc(out.Groups, func(a, b Group) int { return cmp.Compare(a.Service, b.Service) })
	m.rows, m.order, m.reports = map[string]*merging{}, nil, 0
	clear(m.tallies)
	clear(m.unnamed)
	m.second++
	return out
}

// place of a name, from 1; 0 is none.
func (s *MergedSecond) place(c label, places map[label]int) int {
	at, known := places[c]
	if !known && c != (label{}) && len(s.Callers) < MaxCallers {
		s.Callers = append(s.Callers, c.Value())
		at = len(s.Callers)
		places[c] = at
	}
	return at
}

func (s *MergedSecond) told(ps parts, places map[label]int) (out []Part) {
	for _, p := range ps {
		out = append(out, Part{s.place(p.caller, places), p.Outcomes})
	}
	return out
}

// Discarded says how much was discarded, by reason.
func (m *Merger) Discarded() map[Reason]uint64 { return m.discarded }
