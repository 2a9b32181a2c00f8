package evidence

import (
	"cmp"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Tick is a sealed second. It never changes.
type Tick struct {
	Number int64
	Rows   []TickRow // by handle
}

// TickRow is what the second holds about one instance.
type TickRow struct {
	Instance uint32
	eligibility.Evidence
}

// Seal ends the second and begins the next.
func (in *Ingest) Seal() Tick {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := Tick{Number: in.tick}
	for _, o := range in.dirty {
		if o.early != in.tick {
			in.account(o)
		}
	}
	in.charge()
	for _, o := range in.dirty {
		if o.early != in.tick {
			o.service.now.take(o.settle(in.tick))
		}
	}
	for _, o := range in.dirty {
		if o.early != in.tick {
			o.compare()
		}
	}
	for _, o := range in.dirty {
		o.service.now = fare{}
	}
	t.Rows, in.early = in.early, nil
	held := in.dirty[:0]
	for _, o := range in.dirty {
		if o.Handle == 0 { // forgotten meanwhile
			continue
		}
		if o.early == in.tick { // what came after is of the next second
			o.service.now.add(whole(o.row, &o.parts))
			held = append(held, o)
			continue
		}
		in.doubt(o)
		if e, full := o.seal(in.tick); full {
			t.Rows = append(t.Rows, TickRow{o.Handle, e})
		}
		if o.dirty {
			held = append(held, o)
		}
	}
	clear(in.dirty[len(held):])
	in.dirty = held
	slices.SortFunc(t.Rows, func(a, b TickRow) int { return cmp.Compare(a.Instance, b.Instance) })
	in.tick++
	return t
}

// SealEarly seals rows of this second before its end: those with a refusal in
// them that take accepts. Of an instance whose row is sealed, what comes after
// is of the next second, so that the second is in the end what was sealed of
// it, early or not. Refusals that may be the callers' doing wait for the end.
func (in *Ingest) SealEarly(take func(TickRow) bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	refusals := in.refusals()
	for _, o := range in.refused {
		o.refused = false
		if o.Handle == 0 || o.early == in.tick || o.theirs(refusals, in.tick) {
			continue
		}
		p := *o
		p.probes, p.well = slices.Clone(o.probes), slices.Clone(o.well)
		left := p.settle(in.tick)
		o.service.now.take(left)
		p.compare()
		in.doubt(&p)
		e, full := p.seal(in.tick)
		row := TickRow{o.Handle, e}
		if !full || !take(row) {
			o.service.now.give(left)
			continue
		}
		in.account(o)
		*o = p
		o.early = in.tick
		in.early = append(in.early, row)
		in.dirty = slices.DeleteFunc(in.dirty, func(x *open) bool { return x == o })
	}
	clear(in.refused)
	in.refused = in.refused[:0]
}

// refusal notes that a connection was refused: it may be reason enough to seal
// the instance's row early.
func (in *Ingest) refusal(o *open) {
	if !o.refused {
		o.refused = true
		in.refused = append(in.refused, o)
	}
}

// doubt marks what suspect probers say: all looks of the second are in by now.
func (in *Ingest) doubt(o *open) {
	for i := range o.probes {
		p := &o.probes[i]
		p.Suspect = p.Result != eligibility.Good && in.watches[p.Prober].Suspect(in.tick)
	}
}

// seal gives the row where anything failed or changed, or where ten seconds of
// clean running are full; otherwise they are held back.
func (o *open) seal(now int64) (e eligibility.Evidence, full bool) {
	if o.cleanAt == 0 {
		o.cleanAt = now
	}
	bad := o.row.Failed > 0
	if !bad {
		add(&o.clean, o.row)
		o.row = eligibility.Outcomes{}
	}
	e.Charged, o.out = o.out, nil
	if !bad && !o.troubled() && e.Charged == nil && (now+int64(o.Handle))%cleanRun != 0 {
		return e, false
	}
	if o.clean.OK > 0 {
		o.clean.Span = uint8(min(now-o.cleanAt+1, cleanRun))
		e.Outcomes = append(e.Outcomes, o.clean)
	}
	if bad {
		o.row.Span = 1
		e.Outcomes = append(e.Outcomes, o.row)
	}
	e.Probes = runs(o.probes)
	o.remember()
	if o.self != nil {
		e.Self, o.selfTold, o.selfAt = o.self, *o.self, now
	}
	o.row, o.clean, o.probes, o.self, o.dirty, o.cleanAt = eligibility.Outcomes{}, eligibility.Outcomes{}, nil, nil, false, 0
	return e, e.Charged != nil || len(e.Outcomes) > 0 || len(e.Probes) > 0 || e.Self != nil
}

// troubled reports whether a look failed, or is a prober's first good one, or the
// workload's word changed.
func (o *open) troubled() bool {
	return o.self != nil && (o.selfAt == 0 || !same(*o.self, o.selfTold)) ||
		slices.ContainsFunc(o.probes, func(p eligibility.Probe) bool {
			return p.Result != eligibility.Good || !slices.Contains(o.well, p.Prober)
		})
}

// remember notes by whom a good look is nothing new from now on.
func (o *open) remember() {
	for _, p := range o.probes {
		at := slices.Index(o.well, p.Prober)
		switch {
		case p.Result == eligibility.Good && at < 0:
			o.well = append(o.well, p.Prober)
		case p.Result != eligibility.Good && at >= 0:
			o.well = slices.Delete(o.well, at, at+1)
		}
	}
	if len(o.well) > len(o.Probers)+len(o.Before) { // of those who look no more nothing is to be remembered
		o.well = slices.DeleteFunc(o.well, func(p uint32) bool { return !slices.Contains(o.Probers, p) && !slices.Contains(o.Before, p) })
	}
}

func same(a, b eligibility.Self) bool {
	return a.Ready == b.Ready && a.Draining == b.Draining && slices.Equal(a.Dependencies, b.Dependencies)
}

// runs joins each prober's good looks that follow one another. What failed
// stays as it came.
func runs(probes []eligibility.Probe) (out []eligibility.Probe) {
	for _, p := range probes {
		i := slices.IndexFunc(out, func(q eligibility.Probe) bool { return q.Prober == p.Prober })
		if i >= 0 && p.Result == eligibility.Good && out[i].Result == eligibility.Good {
			out[i].Count++
			continue
		}
		out = append(out, p)
	}
	return out
}

// add puts a second to a run.
func add(run *eligibility.Outcomes, row eligibility.Outcomes) {
	run.OK += row.OK
	run.Compared += row.Compared
	run.Expected += row.Expected
	run.Reporters |= row.Reporters
	run.Hurt |= row.Hurt
}
