package evidence

import (
	"cmp"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

const (
	// remembered seconds of what callers of one name saw of a service.
	remembered = 8
	// enoughCharged results are needed before callers are charged; the latest
	// count.
	enoughCharged = 10
	// chargedFor seconds more a charge stands than there is reason for it.
	chargedFor = 5
)

// group is what callers of one name saw of a service in the last seconds.
type group struct {
	caller label
	past   [remembered]toll // by tick
	since  int64            // they are charged from this tick on; 0 is not
	until  int64            // and to this one
}

// toll is a second of it. A place is an instance in a second.
type toll struct {
	tick                    int64
	n, failed               uint64
	places, failing, spared int                // those called; where most failed; of these where others called and did well
	at                      eligibility.Sketch // instances where most failed
	reporters, hurt         eligibility.Sketch // all, and those most of whose results somewhere failed
}

func (t *toll) add(o *toll) {
	t.n, t.failed = t.n+o.n, t.failed+o.failed
	t.places, t.failing, t.spared = t.places+o.places, t.failing+o.failing, t.spared+o.spared
	t.at, t.reporters, t.hurt = t.at|o.at, t.reporters|o.reporters, t.hurt|o.hurt
}

// see puts to it what the group's callers saw of an instance, of all that was
// seen of it.
func (g *group) see(handle uint32, p *part, all eligibility.Outcomes, now int64) {
	t := &g.past[now%remembered]
	if t.tick != now {
		*t = toll{tick: now}
	}
	n := p.OK + p.Failed
	t.n, t.failed = t.n+uint64(n), t.failed+uint64(p.Failed)
	t.places++
	t.reporters |= p.Reporters
	t.hurt |= p.failing
	if 2*p.Failed < n {
		return
	}
	t.failing++
	t.at = t.at.With(uint64(handle))
	others, failed := all.OK+all.Failed-n, all.Failed-p.Failed
	if others > 0 && 4*failed <= others {
		t.spared++
	}
}

// everywhere says whether the group's callers fail wherever they call, and
// others do well in the same places: most of them fail, at nearly every instance
// and at two at least, most of which others call at the same time.
func (g *group) everywhere(now int64) bool {
	sum := toll{}
	for at := now; at > now-remembered && sum.n < enoughCharged; at-- {
		if t := &g.past[(at%remembered+remembered)%remembered]; t.tick == at {
			sum.add(t)
		}
	}
	return sum.n >= enoughCharged && 2*sum.failed >= sum.n && 4*sum.failing >= 3*sum.places && 2*sum.spared >= sum.failing &&
		sum.at.Count() >= 2 && 2*sum.hurt.Count() > sum.reporters.Count()
}

// charged says whether what the group's callers saw counts for nothing at now.
func (g *group) charged(now int64) bool { return g.since != 0 && now <= g.until }

// stale says that none of them called for as long as is remembered.
func (g *group) stale(now int64) bool {
	for i := range g.past {
		if t := g.past[i].tick; t != 0 && t > now-remembered {
			return false
		}
	}
	return !g.charged(now)
}

// group of the name, made where there is a place for it: as with parts, those
// have one whose names come first.
func (s *service) group(k kind, c label) *group {
	gs := s.groups[k]
	if at := slices.IndexFunc(gs, func(g *group) bool { return g.caller == c }); at >= 0 {
		return gs[at]
	}
	g := &group{caller: c}
	if len(gs) < MostCallers {
		s.groups[k] = append(gs, g)
		return g
	}
	last := 0
	for i := range gs {
		if before(gs[last].caller, gs[i].caller) {
			last = i
		}
	}
	if !before(c, gs[last].caller) {
		return nil
	}
	gs[last] = g
	return g
}

// account notes, for each group of a service's callers, what it saw of an
// instance in the second.
func (in *Ingest) account(o *open) {
	for k := range kinds {
		for i := range o.parts[k] {
			p := &o.parts[k][i]
			switch {
			case p.OK+p.Failed == 0:
				continue
			case p.caller == (label{}):
				o.service.unnamed[k] = in.tick
				continue
			}
			if g := o.service.group(k, p.caller); g != nil {
				g.see(o.Handle, p, o.row, in.tick)
			}
			if o.service.called != in.tick {
				o.service.called = in.tick
				in.called = append(in.called, o.service)
			}
		}
	}
}

// charge decides, at the end of a second, which callers are charged with what
// they saw of a service.
func (in *Ingest) charge() {
	for _, s := range in.called {
		for k := range kinds {
			for _, g := range s.groups[k] {
				if !g.everywhere(in.tick) {
					continue
				}
				if !g.charged(in.tick) {
					g.since = in.tick
				}
				g.until = in.tick + chargedFor
			}
			s.groups[k] = slices.DeleteFunc(s.groups[k], func(g *group) bool { return g.stale(in.tick) })
		}
	}
	clear(in.called)
	in.called = in.called[:0]
}

// settle leaves out of the second's row what charged callers saw fail, and says
// what that was in all. Where a zone is charged, revisions are not: what both
// would leave out is not known apart.
func (o *open) settle(now int64) (left fare) {
	for k := range kinds {
		if o.row.Failed == 0 || len(o.charged) > 0 {
			break
		}
		rest := eligibility.Outcomes{}
		for i := range o.parts[k] {
			p := &o.parts[k][i]
			if p.Failed == 0 || !o.service.charges(k, p.caller, now) {
				join(&rest, p.Outcomes)
				continue
			}
			c := eligibility.Charged{Revision: k == byRevision, Caller: p.caller.Value(), Results: p.OK + p.Failed, Failed: p.Failed}
			o.charged = append(o.charged, c)
			left.add(p.Outcomes)
		}
		if len(o.charged) > 0 {
			o.row = rest
		}
	}
	slices.SortFunc(o.charged, func(a, b eligibility.Charged) int { return cmp.Compare(a.Caller, b.Caller) })
	return left
}

// others says whether the service has callers of several names, or of none too.
func (s *service) others(k kind, now int64) bool {
	return len(s.groups[k]) > 1 || len(s.groups[k]) > 0 && s.unnamed[k] != 0 && now-s.unnamed[k] < remembered
}

func (s *service) charges(k kind, c label, now int64) bool {
	return slices.ContainsFunc(s.groups[k], func(g *group) bool { return g.caller == c && g.charged(now) })
}

// place is where callers of one name were refused.
type place struct {
	service *service
	kind    kind
	caller  label
}

// refusals are the instances at which callers of one name, and nobody else, were
// refused in this second: how many, by who they are.
func (in *Ingest) refusals() map[place]int {
	out := map[place]int{}
	for _, o := range in.refused {
		for k := range kinds {
			if p := o.refusedTo(k); p != nil {
				out[place{o.service, k, p.caller}]++
			}
		}
	}
	return out
}

// refusedTo are the callers that alone were refused, if there are such.
func (o *open) refusedTo(k kind) *part {
	for i := range o.parts[k] {
		if p := &o.parts[k][i]; p.Refusing != 0 && p.Refusing == o.row.Refusing && p.caller != (label{}) {
			return p
		}
	}
	return nil
}

// theirs says whether callers of one name alone were refused here, and at other
// instances too, while the service has others: whether that is the instances'
// doing or theirs is known when the second is over. A prober's word does not wait
// for it.
func (o *open) theirs(refusals map[place]int, now int64) bool {
	if slices.ContainsFunc(o.probes, func(p eligibility.Probe) bool { return p.Result == eligibility.Refused }) {
		return false
	}
	for k := range kinds {
		if p := o.refusedTo(k); p != nil && refusals[place{o.service, k, p.caller}] > 1 && o.service.others(k, now) {
			return true
		}
	}
	return false
}

// Charge is callers of one service whose results count for nothing now: they
// fail everywhere, and others do well at the same instances.
type Charge struct {
	Service string
	// Revision says that Caller is one; else it is a zone.
	Revision bool
	Caller   string
	Since    int64 // the tick from which it stands
}

// Charges that stand.
func (in *Ingest) Charges() (out []Charge) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range in.services {
		for k := range kinds {
			for _, g := range s.groups[k] {
				if g.charged(in.tick) {
					out = append(out, Charge{s.name, k == byRevision, g.caller.Value(), g.since})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Charge) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Since, b.Since))
	})
	return out
}

// Crowded is how often callers were not told apart, because there were too many
// names.
func (in *Ingest) Crowded() uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.crowded
}
