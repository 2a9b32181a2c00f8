package evidence

import "github.com/fairlead-platform/fairlead/internal/eligibility"

// Relay is one relay's stream. It belongs to one goroutine at a time.
type Relay struct{ last uint64 }

// MergedRow is what a relay's reporters saw of one instance, by its handle.
type MergedRow struct {
	Instance uint32
	eligibility.Outcomes
	Apart
}

// MergedBatch is a relay's second, by handles.
type MergedBatch struct {
	Number  uint64
	Reports uint32 // what so many could not have said is discarded
	Callers []string
	Groups  []Group
	Rows    []MergedRow
}

// MaxMerged rows of a relay's batch; a longer one is refused whole.
const MaxMerged = 100_000

// mostMerged reporters of a relay in a second are believed: what each may say of
// an instance adds up to less than a row holds.
const mostMerged = 1 << 20

// Merged takes a relay's second in.
func (in *Ingest) Merged(r *Relay, b MergedBatch) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case len(b.Rows) > MaxMerged || len(b.Groups) > MaxMerged || len(b.Callers) > MaxCallers:
		in.discarded[TooLarge] += uint64(len(b.Rows))
		return
	case b.Number <= r.last:
		in.discarded[Repeated] += uint64(len(b.Rows))
		return
	}
	r.last, b.Reports = b.Number, min(b.Reports, mostMerged)
	names := in.names(b.Callers)
	for i := range b.Groups {
		in.told(&b.Groups[i], b.Reports, names)
	}
	for i := range b.Rows {
		x := &b.Rows[i].Outcomes
		o := in.instances[b.Rows[i].Instance]
		switch {
		case o == nil:
			in.discarded[UnknownInstance]++
		case !o.Profile.Outcomes:
			in.discarded[Undeclared]++
		case !possible(x, b.Reports) || !b.Rows[i].Apart.possible(x):
			in.discarded[OutOfRange]++
		case x.OK+x.Failed > 0:
			in.touch(o)
			o.merge(x, &b.Rows[i].Apart, names)
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

// told takes in what a relay's reporters of one name saw of a service in all. What
// so many could not have said is discarded.
func (in *Ingest) told(g *Group, reports uint32, names []label) {
	t := tally{results: g.Results, failed: g.Failed, reporters: g.Reporters, failing: g.Failing}
	if g.Caller > 0 && g.Caller < len(names) {
		t.caller = names[g.Caller]
	}
	s := in.services[g.Service]
	switch {
	case s == nil: // its instances are gone
		return
	case g.Failed > g.Results, g.Results > Cap*MaxRows*uint64(reports), g.Failing&^g.Reporters != 0, uint64(g.Reporters.Count()) > uint64(reports):
		in.discarded[OutOfRange]++
		return
	}
	k := byZone
	if g.Revision {
		k = byRevision
	}
	in.tell(s, k, t)
}

// merge puts what a relay's reporters saw to what others saw.
func (o *open) merge(x *eligibility.Outcomes, apart *Apart, names []label) {
	if len(apart.Zones) == 0 {
		join(&o.row, *x)
		return
	}
	join(&o.row, apart.Well)
	for k, told := range [kinds][]Part{apart.Zones, apart.Revisions} {
		for _, p := range told {
			c := label{}
			if p.Caller > 0 && p.Caller < len(names) {
				c = names[p.Caller]
			}
			o.parts[k].join(c, p.Outcomes)
		}
	}
}

// possible says whether the parts, if there are any, are all of the row: by zones
// and by revisions.
func (a *Apart) possible(x *eligibility.Outcomes) bool {
	if len(a.Zones)+len(a.Revisions) == 0 {
		return true
	}
	return a.wholly(x, a.Zones) && a.wholly(x, a.Revisions)
}

func (a *Apart) wholly(x *eligibility.Outcomes, told []Part) bool {
	if len(told) == 0 || len(told) > MostCallers+1 {
		return false
	}
	sum := a.Well
	ok, failed, compared, expected := uint64(sum.OK), uint64(sum.Failed), uint64(sum.Compared), min(sum.Expected, x.Expected+1)
	for _, p := range told {
		ok, failed, compared, expected = ok+uint64(p.OK), failed+uint64(p.Failed), compared+uint64(p.Compared), expected+min(p.Expected, x.Expected+1)
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
