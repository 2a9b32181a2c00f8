package discovery

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
)

const (
	// relistEvery is after how many ticks an answer that did not change counts
	// as another one.
	relistEvery = 10
	// fresh is how old a host's last word may be and still be its word now: it
	// beats each second.
	fresh = 3 * time.Second
	// linger is for how many ticks an instance that is gone is shown.
	linger = 2
)

// hosts takes in what the hosts say: which instances there are, and how each
// is by their word.
func (t *term) hosts() {
	now := t.eval.Now() + 1
	list := now-t.synced >= relistEvery
	select { // whether something changed; a closed channel is replaced
	case <-t.changed:
		list = true
	default:
		list = list || t.changed == nil
	}
	if list {
		t.changed, t.synced = t.p.cfg.Hosts.Changed(), now
	}
	listed := map[string]bool{} // :: instance → its host names it
	for _, h := range t.p.cfg.Hosts.States() {
		if h.Reported && list {
			t.sync(h, now)
		}
		for _, i := range h.Instances {
			listed[i.ID] = true
			if h.Connected && h.Reported && h.Silent <= fresh {
				t.self(h.Name, i)
			}
		}
	}
	t.forgetEnded(listed, now)
}

// answered is an answer that a host gave, and the tick at which it counted.
type answered struct {
	number uint64
	at     int64
}

// another says whether a host's answer counts as another one than before: it is
// one, or the host is there and has stood by it for long enough.
func (t *term) another(h service.HostState, now int64) bool {
	was, known := t.answers[h.Name]
	if known && was.number == h.Answers && (!h.Connected || now-was.at < relistEvery) {
		return false
	}
	t.answers[h.Name] = answered{h.Answers, now}
	return true
}

// sync takes one host's listing.
func (t *term) sync(h service.HostState, now int64) {
	l := registry.Listing{Source: registry.Host, Host: h.Name, Again: !t.another(h, now)}
	for _, i := range h.Instances {
		x, known := t.reg.Get(i.ID)
		if !known && i.State == service.InstanceExited {
			continue // it ended before it was ever seen
		}
		if known && x.Host != h.Name {
			continue // it is another's: nobody reports on others
		}
		l.Rows = append(l.Rows, t.row(h, i))
	}
	s := t.reg.Sync(l, func(x registry.Instance) bool { return x.Terminating || tells(h, x) })
	for _, x := range append(s.Changed, s.Gone...) {
		t.enter(x)
	}
	t.heldDrops += uint64(len(s.Held))
	for _, x := range s.Held {
		t.log.Warn("a host no longer lists an instance, and does not say why: held until another answer confirms it", "host", h.Name, "service", x.Service, "instance", x.ID)
	}
}

// tells says whether a host tells why it lists an instance no more: it told its
// end, it left with nothing running, or another process runs in the slot.
func tells(h service.HostState, x registry.Instance) bool {
	_, ended := slices.BinarySearch(h.Ended, x.ID)
	return ended || h.Left || slices.ContainsFunc(h.Instances, func(i service.Instance) bool {
		return x.Slot != "" && i.Slot == x.Slot && i.Service == x.Service && i.State != service.InstanceExited
	})
}

func (t *term) row(h service.HostState, i service.Instance) registry.Instance {
	return registry.Instance{
		ID: i.ID, Handle: t.handles[i.ID], Service: i.Service, Revision: i.Revision, Slot: i.Slot,
		Host: h.Name, Zone: h.Zone, Address: i.Address, Source: registry.Host,
		Listening:   i.State == service.InstanceLive,
		Terminating: i.State == service.InstanceDraining || t.leaves(i.ID),
		Gone:        i.State == service.InstanceExited,
	}
}

// enter has the evaluator and the ingest know a row.
func (t *term) enter(x registry.Instance) {
	if !t.known[x.Service] {
		t.contract(x.Service)
	}
	t.handles[x.ID] = x.Handle
	t.eval.Enter(x, nil)
	t.know(x)
	t.records.stage(x)
}

func (t *term) knowAll(name string) {
	for _, x := range t.reg.Of(name) {
		t.know(x)
	}
}

// takeEnded takes in which instances ended since the last second, by their hosts'
// word.
func (t *term) takeEnded() (out []Record) {
	at := t.p.cfg.Now().UTC()
	for _, h := range t.p.cfg.Hosts.States() {
		for _, i := range h.Instances {
			row, known := t.reg.Get(i.ID)
			if i.State != service.InstanceExited || !known || row.Gone || row.Host != h.Name {
				continue
			}
			row.Gone, row.Listening = true, false
			x, judged := t.eval.End(row)
			if !judged {
				continue
			}
			row, _ = t.reg.Put(row)
			t.records.stage(row)
			out = append(out, t.record(x, at)...)
		}
	}
	return out
}

// forgetEnded drops instances that are gone once no host speaks of them, and
// those of hosts that a person retired.
func (t *term) forgetEnded(listed map[string]bool, now int64) {
	t.stay(now)
	for _, name := range t.reg.Services() {
		for _, x := range t.reg.Of(name) {
			if !x.Gone && !listed[x.ID] && t.lead.Retired(x.Host) {
				x.Gone = true
				t.reg.Put(x)
				t.enter(x)
			}
			if !x.Gone || listed[x.ID] {
				delete(t.ended, x.ID)
				continue
			}
			switch since, is := t.ended[x.ID]; {
			case !is:
				t.ended[x.ID] = now
			case now-since >= linger:
				t.reg.Remove(x.ID)
				t.records.unstage(x.ID)
				t.eval.Leave(x.Handle)
				t.ingest.Forget(x.Handle)
				t.unfollow(x.ID)
				delete(t.ended, x.ID)
				delete(t.handles, x.ID)
				delete(t.words, x.ID)
				delete(t.details, x.ID)
			}
		}
	}
}

// living says whether the instance is known.
func (t *term) living(instance string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.reg.Get(instance)
	return known
}
