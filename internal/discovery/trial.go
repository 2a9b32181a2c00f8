package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

const (
	// settling is how many ticks before its window a trial folds by the
	// contract in force, so that every score is as it was.
	settling = 1800
	// together is within how many ticks two contracts put the same instance
	// out, or trip the same guard, for it to be one event.
	together = 60
)

// Trial says what a proposed contract would have done over retained evidence.
type Trial struct {
	From, To time.Time
	// Seconds of the window in which the service had instances, and how many of
	// them nothing was retained of.
	Seconds, Lost int
	// Recorded are the changes that were taken in the window, and Reproduced
	// how many of them the same evidence gives again by the contract in force.
	Recorded, Reproduced int
	Removals             []Removal // in order
	Spared               []Removal // by the contract in force, and not by the proposed one
	Trips                []GuardTrip
}

// Removal is an instance that evidence put out of rotation.
type Removal struct {
	Instance string
	At       time.Time
	Rule     eligibility.Rule
	Why      string
	// AlsoInForce says that the contract in force put it out as well.
	AlsoInForce bool
}

// GuardTrip is the fraction guard's.
type GuardTrip struct {
	At          time.Time
	Group, Zone string
	In, Counted int
	AlsoInForce bool
}

// Condemned says that the proposed contract would have removed an instance
// that the one in force did not, or have tripped the guard where that did not.
func (t Trial) Condemned() bool {
	return slices.ContainsFunc(t.Removals, func(r Removal) bool { return !r.AlsoInForce }) ||
		slices.ContainsFunc(t.Trips, func(r GuardTrip) bool { return !r.AlsoInForce })
}

// Inconclusive says why too little was replayed to say what would not have
// happened; empty where it was enough. What would have happened did all the same.
func (t Trial) Inconclusive() string {
	if replayed := t.Seconds - t.Lost; 2*replayed < t.Seconds {
		return fmt.Sprintf("of the %d s of the window the evidence of %d s is lost, and what it would have shown is not known", t.Seconds, t.Lost)
	}
	return ""
}

// Try folds a proposed contract over what is retained of a service's evidence
// since so many ago.
func (p *Plane) Try(ctx context.Context, name string, c eligibility.Contract, since time.Duration) (Trial, error) {
	t := p.current()
	if t == nil {
		return Trial{}, fault.New(fault.Unavailable, "ask again in a few seconds", "nothing is known of instances yet: this control has only just begun to observe")
	}
	t.mu.Lock()
	c = t.governing(name, t.lookable(c))
	t.mu.Unlock()
	seconds := int64(since / time.Second)
	past, records, err := t.past(ctx, name, seconds)
	if err != nil {
		return Trial{}, err
	}
	if len(past.Members) == 0 {
		return Trial{}, fault.New(fault.NotFound, "", "nothing is retained of service %s", name)
	}
	when := calendar(records, past.To, p.cfg.Now())
	base, tried := evaluate.Replay(past), evaluate.Try(past, c)
	from := min(begins(past, seconds), past.From)
	out := Trial{From: when(from), To: when(past.To), Seconds: int(past.To - from + 1)}
	out.Lost = out.Seconds - within(past)
	out.Recorded, out.Reproduced = reproduced(base, records, past)
	theirs, mine := removals(base, when), removals(tried, when)
	for i, r := range mine {
		mine[i].AlsoInForce = slices.ContainsFunc(theirs, r.same)
	}
	for _, r := range theirs {
		if !slices.ContainsFunc(mine, r.same) {
			out.Spared = append(out.Spared, r)
		}
	}
	out.Removals, out.Trips = mine, trips(tried, base, when)
	return out, nil
}

// begins is the tick of the window from which the service had instances, whether
// or not something is retained of it.
func begins(past evaluate.Past, seconds int64) int64 {
	born := past.To
	for _, m := range past.Members {
		born = min(born, m.Born)
	}
	return max(past.To-seconds+1, born, 1)
}

// past gathers what is retained of the service.
func (t *term) past(ctx context.Context, name string, seconds int64) (evaluate.Past, []Record, error) {
	t.mu.Lock()
	past := evaluate.Past{Service: name, InForce: t.inForce(name), Guard: t.policy(name).Guard.Policy(), To: t.eval.Now()}
	there := t.eval.Entered(name)
	t.mu.Unlock()
	past.From = max(past.To-seconds+1, 1)
	kept, err := t.keeper.Of(ctx, past.From-settling, name)
	if err != nil && len(kept.Ticks) == 0 {
		return past, nil, fmt.Errorf("cannot read the evidence of service %s: %w", name, err)
	}
	past.Ticks = kept.Ticks
	slices.SortFunc(past.Ticks, func(a, b evidence.Tick) int { return cmp.Compare(a.Number, b.Number) })
	if len(past.Ticks) > 0 { // what is older is gone: the window begins where evidence does
		past.From = max(past.From, past.Ticks[0].Number)
	}
	records, err := t.recorded(ctx, name, t.p.cfg.Now().Add(-time.Duration(past.To-past.From+settling)*time.Second))
	if err != nil {
		return past, nil, err
	}
	if past.Earlier, err = t.earlier(ctx, name, past); err != nil {
		return past, nil, err
	}
	past.Members = members(records, there, past)
	return past, records, nil
}

// recorded are a service's transitions, in the order of their ticks: those of
// the store, and sealed ones since.
func (t *term) recorded(ctx context.Context, name string, since time.Time) (all []Record, err error) {
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindTransition)
	if err != nil {
		return nil, fmt.Errorf("cannot read the recorded transitions: %w", err)
	}
	for _, d := range docs {
		var x Record
		if strings.HasPrefix(d.Name, name+".") && json.Unmarshal(d.Body, &x) == nil {
			all = append(all, x)
		}
	}
	all, err = t.archive.Transitions(ctx, name, all, func(all []Record) bool { return oldest(all).After(since) })
	if err != nil {
		t.log.Warn("a contract is tried without all of the sealed history", "service", name, "error", err)
	}
	return all, nil
}

// earlier are the contracts that were in force before the present one, since
// some time before the window: each until the second after it was replaced.
func (t *term) earlier(ctx context.Context, name string, past evaluate.Past) (out []evaluate.Earlier, err error) {
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindPolicy)
	if err != nil {
		return nil, fmt.Errorf("cannot read the recorded policies: %w", err)
	}
	t.mu.Lock()
	sealed := t.sealedAt
	t.mu.Unlock()
	for _, d := range docs {
		var p Policy
		if !strings.HasPrefix(d.Name, name+".") || json.Unmarshal(d.Body, &p) != nil || p.Service != name || p.What != "contract" || len(p.Before) == 0 {
			continue
		}
		c := DefaultContract()
		until := past.To - int64(sealed.Sub(p.At)/time.Second) // the first that was sealed after it was written
		if json.Unmarshal(p.Before, &c) != nil || until < past.From-settling {
			continue
		}
		t.mu.Lock()
		c = t.governing(name, t.lookable(c))
		t.mu.Unlock()
		out = append(out, evaluate.Earlier{Until: until, Contract: c})
	}
	slices.SortFunc(out, func(a, b evaluate.Earlier) int { return cmp.Compare(a.Until, b.Until) })
	return out, nil
}

// oldest is the instant of the oldest record; far off where there is none.
func oldest(all []Record) time.Time {
	at := time.Unix(1<<40, 0)
	for _, r := range all {
		if r.At.Before(at) {
			at = r.At
		}
	}
	return at
}

// members are the instances that there were in the window, each with where it
// begins and what became known of it.
func members(records []Record, there []evaluate.Entered, past evaluate.Past) (out []evaluate.PastMember) {
	by := map[uint32][]Record{} // :: handle → its records, in order
	for _, r := range records {
		by[r.Row.Handle] = append(by[r.Row.Handle], r)
	}
	for _, e := range there {
		if len(by[e.Handle]) == 0 { // it never changed
			out = append(out, evaluate.PastMember{Row: e.Instance, Born: e.Born})
		}
	}
	for _, own := range by {
		if m, was := member(own, past); was {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b evaluate.PastMember) int { return cmp.Compare(a.Row.Handle, b.Row.Handle) })
	return out
}

func member(own []Record, past evaluate.Past) (m evaluate.PastMember, was bool) {
	first := own[0]
	m.Row, m.Born = first.Row, first.State.Born
	m.Row.Gone, m.Row.Terminating, m.Row.EverReady = false, false, false
	for _, r := range own {
		if r.Tick < past.From { // the last one before the window is where it begins
			m.Row, m.State, m.Facts = r.Row, &r.State, nil
			continue
		}
		m.Facts = append(m.Facts, evaluate.Fact{Tick: r.Tick, Row: r.Row, Held: r.Rule == eligibility.HeldOut})
	}
	if m.State != nil && m.Row.Gone && len(m.Facts) == 0 {
		return m, false // it was gone before
	}
	if m.State == nil && m.Born < past.From && len(past.Ticks) > 0 && m.Born < past.Ticks[0].Number {
		m.State = before(first, past.Ticks[0].Number-1)
		m.Row.EverReady = m.State.Ready
	}
	return m, true
}

// before is a state as far as a change tells what it was changed from.
func before(r Record, at int64) *eligibility.State {
	s := &eligibility.State{Born: r.State.Born, Judged: at, Verdict: r.From, Rule: r.FromRule, Since: at, Weight: 1000, Ready: r.FromRule != eligibility.Starting}
	if r.From == eligibility.Ineligible {
		s.Weight = 0
	}
	return s
}

// within counts the ticks of the window of which something was retained.
func within(past evaluate.Past) (n int) {
	for _, t := range past.Ticks {
		if t.Number >= past.From && t.Number <= past.To {
			n++
		}
	}
	return n
}

// reproduced counts the recorded changes of the window, and those of them that
// the trial of the contract in force gives at the same tick.
func reproduced(base evaluate.Trial, records []Record, past evaluate.Past) (recorded, same int) {
	type change struct {
		handle uint32
		tick   int64
		to     eligibility.Verdict
		rule   eligibility.Rule
	}
	again := map[change]bool{} // :: change → the trial gives it
	for _, x := range base.Transitions {
		again[change{x.Handle, x.Tick, x.To, x.Rule}] = true
	}
	for _, r := range records {
		if r.Tick < past.From || r.Tick > past.To {
			continue
		}
		recorded++
		if again[change{r.Row.Handle, r.Tick, r.To, r.Rule}] {
			same++
		}
	}
	return recorded, same
}

// removals are who evidence put out.
func removals(t evaluate.Trial, when func(int64) time.Time) (out []Removal) {
	for _, x := range t.Transitions {
		if x.To == eligibility.Ineligible && x.From != eligibility.Ineligible && x.Rule.ByEvidence() && x.Rule != eligibility.SaysDraining {
			out = append(out, Removal{Instance: x.Instance, At: when(x.Tick), Rule: x.Rule, Why: x.Account().Why})
		}
	}
	return out
}

// same says that two contracts put one instance out at about one time.
func (r Removal) same(x Removal) bool {
	return r.Instance == x.Instance && r.At.Sub(x.At).Abs() <= together*time.Second
}

func trips(tried, base evaluate.Trial, when func(int64) time.Time) (out []GuardTrip) {
	for _, x := range tried.Trips {
		out = append(out, GuardTrip{
			At: when(x.Tick), Group: x.Group, Zone: x.Zone, In: x.In, Counted: x.Counted,
			AlsoInForce: slices.ContainsFunc(base.Trips, func(y evaluate.Trip) bool {
				return y.Group == x.Group && y.Zone == x.Zone && max(y.Tick-x.Tick, x.Tick-y.Tick) <= together
			}),
		})
	}
	return out
}

// calendar dates ticks for people: from the recorded change before, or else
// counted back from now.
func calendar(records []Record, last int64, now time.Time) func(tick int64) time.Time {
	return func(tick int64) time.Time {
		i, _ := slices.BinarySearchFunc(records, tick+1, func(r Record, at int64) int { return cmp.Compare(r.Tick, at) })
		if i > 0 && !records[i-1].At.IsZero() {
			return records[i-1].At.Add(time.Duration(tick-records[i-1].Tick) * time.Second)
		}
		return now.Add(-time.Duration(last-tick) * time.Second)
	}
}
