package evidence

import (
	"cmp"
	"slices"
	"strings"

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

// toll is a second of it. A place is an instance at which those called most of
// whose results failed.
type toll struct {
	tick int64
	tally
	places, failing, spared int                // all; where most failed; of these where others called and did well
	at                      eligibility.Sketch // instances where most failed
}

func (t *toll) add(o *toll) {
	t.tally.add(&o.tally)
	t.places, t.failing, t.spared = t.places+o.places, t.failing+o.failing, t.spared+o.spared
	t.at |= o.at
}

func (g *group) second(now int64) *toll {
	t := &g.past[now%remembered]
	if t.tick != now {
		*t = toll{tick: now}
	}
	return t
}

// see puts to it what those of the group saw of an instance most of whose results
// failed, of all that was seen of it.
func (g *group) see(handle uint32, p *part, all eligibility.Outcomes, now int64) {
	t, n := g.second(now), p.OK+p.Failed
	if t.places++; 2*p.Failed < n {
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
	for at := now; at > now-remembered && sum.results < enoughCharged; at-- {
		if t := &g.past[(at%remembered+remembered)%remembered]; t.tick == at {
			sum.add(t)
		}
	}
	return sum.results >= enoughCharged && 2*sum.failed >= sum.results && 4*sum.failing >= 3*sum.places && 2*sum.spared >= sum.failing &&
		sum.at.Count() >= 2 && 2*sum.tally.failing.Count() > sum.reporters.Count()
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

// tell notes what callers of one name saw of a service in the second, in all.
func (in *Ingest) tell(s *service, k kind, t tally) {
	if t.caller == (label{}) {
		s.unnamed[k] = in.tick
		return
	}
	at, crowded := placed(&s.groups[k], t.caller, (*group).name, func() *group { return &group{caller: t.caller} })
	if crowded {
		in.crowded++
	}
	if at >= 0 {
		s.groups[k][at].second(in.tick).tally.add(&t)
	}
	if s.called != in.tick {
		s.called = in.tick
		in.called = append(in.called, s)
	}
}

func (g *group) name() label { return g.caller }

// account notes, for each group of a service's callers, what those of it saw of
// an instance most of whose results failed.
func (in *Ingest) account(o *open) {
	if len(o.parts[byZone]) == 0 {
		return
	}
	all := whole(o.row, &o.parts)
	for k := range kinds {
		for i := range o.parts[k] {
			p := &o.parts[k][i]
			at := slices.IndexFunc(o.service.groups[k], func(g *group) bool { return g.caller == p.caller })
			if at >= 0 && p.OK+p.Failed > 0 {
				o.service.groups[k][at].see(o.Handle, p, all, in.tick)
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

// settle puts the second's row together, without what charged callers saw fail,
// and says what that was in all. Where a zone is charged, revisions are not: what
// both would leave out is not known apart.
func (o *open) settle(now int64) (left fare) {
	if len(o.parts[byZone]) == 0 {
		return left
	}
	k := byZone
	if charged := func(p part) bool { return o.charged(byRevision, &p, now) }; !slices.ContainsFunc(o.parts[byZone], func(p part) bool { return o.charged(byZone, &p, now) }) && slices.ContainsFunc(o.parts[byRevision], charged) {
		k = byRevision
	}
	var who []string
	for i := range o.parts[k] {
		p := &o.parts[k][i]
		if !o.charged(k, p, now) {
			join(&o.row, p.Outcomes)
			continue
		}
		who = append(who, p.caller.Value())
		left.add(p.Outcomes)
	}
	for k := range kinds {
		o.parts[k] = o.parts[k][:0]
	}
	if len(who) > 0 {
		slices.Sort(who)
		o.out = &eligibility.Charged{Revision: k == byRevision, Caller: strings.Join(who, ", "), Results: uint32(left.n), Failed: uint32(left.failed)}
	}
	return left
}

// charged says whether a part of the row counts for nothing.
func (o *open) charged(k kind, p *part, now int64) bool {
	return p.Failed > 0 && slices.ContainsFunc(o.service.groups[k], func(g *group) bool { return g.caller == p.caller && g.charged(now) })
}

// others says whether the service has callers of several names, or of none too.
func (s *service) others(k kind, now int64) bool {
	return len(s.groups[k]) > 1 || len(s.groups[k]) > 0 && s.unnamed[k] != 0 && now-s.unnamed[k] < remembered
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
	refusing := whole(o.row, &o.parts).Refusing
	for i := range o.parts[k] {
		if p := &o.parts[k][i]; p.Refusing != 0 && p.Refusing == refusing && p.caller != (label{}) {
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
