package discovery

import "github.com/fairlead-platform/fairlead/internal/routing"

// leavingFor is for how many ticks an instance is taken to leave on the word that
// it is to, where its host does not come to say so: a command that was not
// answered may be obeyed late.
const leavingFor = 90

// Withdraw takes instances for terminating from now on: they leave the views at
// once, unless there is more to send than can be sent. Their host is told to
// stop them once callers have acknowledged it. Said again, it holds for longer.
func (p *Plane) Withdraw(service string, instances []string) {
	t := p.current()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range instances {
		row, known := t.reg.Get(id)
		if !known || row.Service != service {
			continue
		}
		t.leaving[id] = t.eval.Now()
		if !row.Gone && !row.Terminating {
			row.Terminating = true
			row, _ = t.reg.Put(row)
			t.enter(row)
			t.turning[service] = true
			t.hurry()
		}
	}
}

// MayPick are the callers who may still pick one of the instances by the views
// that they hold.
func (p *Plane) MayPick(service string, instances []string) routing.Pickers {
	if p.current() == nil { // and nobody is sent anything
		return routing.Pickers{Why: "the discovery plane, which has not begun yet"}
	}
	return p.cfg.Views.MayPick(service, instances)
}

// leaves says that an instance is to stop by plan.
func (t *term) leaves(id string) bool {
	_, is := t.leaving[id]
	return is
}

// stay forgets who was to leave and did not.
func (t *term) stay(now int64) {
	for id, since := range t.leaving {
		if _, known := t.reg.Get(id); !known || now-since > leavingFor {
			delete(t.leaving, id)
		}
	}
}
