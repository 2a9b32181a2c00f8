package discovery

import (
	"context"
	"maps"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// plan is what an assignment is computed of, and what it comes to.
type plan struct {
	lookers []looker
	spots   []spot
	records map[string]ProberRecord // :: prober → as it is
	kept    map[string]bool         // :: prober → the store has its record
	forgot  []store.Write
	version uint64

	before  map[string]pick // :: instance → as it is
	picks   map[string]pick // :: instance → as it is to be
	moved   []string        // instances that others look at than before
	changed []ProberRecord
}

// assigning computes the assignment whenever members or targets changed, has it
// recorded, and only then puts it in force: until the store answers, the one
// before stands.
func (t *term) assigning(ctx context.Context) {
	for {
		select { // the end of the term, or something to compute
		case <-ctx.Done():
			return
		case <-t.probing.wake:
		}
		for ctx.Err() == nil && !t.assign(ctx) {
			pause(ctx, retryAfter)
		}
	}
}

func (t *term) assign(ctx context.Context) (done bool) {
	p := t.plan()
	if p == nil {
		return true
	}
	p.compute()
	for part := range slices.Chunk(p.writes(), mostRecords) {
		if err := t.lead.Commit(ctx, part); err != nil {
			if ctx.Err() == nil {
				t.log.Warn("who looks at what is not recorded yet: the assignment before stands", "error", err)
			}
			t.mu.Lock()
			t.probing.stale = true
			t.mu.Unlock()
			return false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.install(p)
	return true
}

// mostRecords of one commit; each may be as large as a full share of targets.
const mostRecords = 50

// plan takes what is to be computed; nil is nothing. Where no prober is heard,
// what is assigned stays so: nobody else could look.
func (t *term) plan() *plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.probing
	if !p.stale {
		return nil
	}
	p.stale = false
	out := &plan{records: map[string]ProberRecord{}, kept: map[string]bool{}, version: p.version + 1, before: p.picks}
	for _, m := range p.sorted() {
		if m.Handle == 0 {
			m.Handle = p.top + 1
			p.enter(m)
		}
		out.records[m.Name], out.kept[m.Name] = m.ProberRecord, m.kept
		if !m.gone {
			out.lookers = append(out.lookers, looker{m.Name, m.Zone})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.forgetting)) {
		out.forgot = append(out.forgot, erase(ProberRecord{Name: name}.key()))
	}
	for _, x := range p.targets {
		if !x.over {
			out.spots = append(out.spots, spot{x.id, x.zone})
		}
	}
	return out
}

func (p *plan) compute() {
	if len(p.lookers) == 0 { // nobody else could look
		p.picks = p.before
		return
	}
	p.picks = assign(p.lookers, p.spots, mostTargets)
	targets := map[string][]string{} // :: prober → instances
	for id, x := range p.picks {
		for _, name := range x.probers {
			targets[name] = append(targets[name], id)
		}
	}
	for _, s := range p.spots {
		if was, is := p.before[s.id]; !is || !was.same(p.picks[s.id]) {
			p.moved = append(p.moved, s.id)
		}
	}
	for name, r := range p.records {
		slices.Sort(targets[name])
		if p.kept[name] && slices.Equal(r.Targets, targets[name]) {
			continue
		}
		r.Targets, r.Version = targets[name], p.version
		p.changed = append(p.changed, r)
	}
}

func (p *plan) writes() []store.Write {
	writes := p.forgot
	for _, r := range p.changed {
		writes = append(writes, r.write())
	}
	return writes
}

// install puts an assignment in force that is recorded.
func (t *term) install(p *plan) {
	if len(p.changed) > 0 {
		t.probing.version = p.version
	}
	for _, r := range p.changed {
		if m := t.probing.members[r.Name]; m != nil {
			m.Targets, m.Version, m.kept = r.Targets, r.Version, true
		}
	}
	for _, w := range p.forgot {
		delete(t.probing.forgetting, w.Name)
	}
	t.probing.picks, t.probing.unlooked = p.picks, len(p.spots)-len(p.picks)
	for _, id := range p.moved {
		if x := t.probing.targets[id]; x != nil && !x.over {
			pick := p.picks[id]
			x.borrowed = pick.borrowed
			t.precede(x, t.handlesOf(pick.probers))
		}
	}
	for _, m := range t.probing.members {
		if m.stream != nil {
			m.stream.wakeUp()
		}
	}
}

func (t *term) handlesOf(names []string) (handles []uint32) {
	for _, name := range names {
		if m := t.probing.members[name]; m != nil {
			handles = append(handles, m.Handle)
		}
	}
	slices.Sort(handles)
	return handles
}
