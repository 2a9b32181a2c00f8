package discovery

import (
	"github.com/fairlead-platform/fairlead/view"
)

// leavingFor is for how many ticks an instance is taken to leave on the word that
// it is to, where its host does not come to say so.
const leavingFor = 60

// leaving is an instance that is to stop by plan.
type leaving struct {
	since int64        // tick
	out   view.Version // the first that was seen without it; zero is none yet
}

// Withdraw takes instances for terminating from now on: they leave the views
// with the next publication of what may wait. Their host is told to stop them
// once callers have acknowledged it.
func (p *Plane) Withdraw(service string, instances []string) {
	t := p.current()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range instances {
		row, known := t.reg.Get(id)
		if !known || row.Service != service || t.leaving[id] != nil {
			continue
		}
		t.leaving[id] = &leaving{since: t.eval.Now()}
		if !row.Gone && !row.Terminating {
			row.Terminating = true
			row, _ = t.reg.Put(row)
			t.enter(row)
		}
	}
}

// Withdrawn says that no published view names the instances any more, and that
// callers have acknowledged one without them; or who has not.
func (p *Plane) Withdrawn(service string, instances []string) (behind []string, done bool) {
	t := p.current()
	if t == nil {
		return []string{"the discovery plane, which has not begun yet"}, false
	}
	t.mu.Lock()
	published := t.eval.View(service)
	var last view.Version
	for _, id := range instances {
		if published == nil {
			break
		}
		if e, _ := published.Endpoint(id); e.In() {
			t.mu.Unlock()
			return []string{"the view, which names them still"}, false
		}
		out := published.Version
		if l := t.leaving[id]; l != nil {
			if l.out.Zero() {
				l.out = out
			}
			out = l.out
		}
		if last.Zero() || out.Against(last) == view.Newer {
			last = out
		}
	}
	t.mu.Unlock()
	if last.Zero() {
		return nil, true
	}
	behind = p.cfg.Views.Lacking(service, last)
	return behind, len(behind) == 0
}

// stay forgets who was to leave and did not.
func (t *term) stay(now int64) {
	for id, l := range t.leaving {
		if _, known := t.reg.Get(id); !known || now-l.since > leavingFor {
			delete(t.leaving, id)
		}
	}
}
