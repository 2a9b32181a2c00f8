package discovery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	// LeaseFor is a lease's term, in ticks: while this control does not lead,
	// or stands still, none passes.
	LeaseFor = 30
	// lapsed is for how many ticks an ended lease may be renewed still: then
	// its instance is gone.
	lapsed = 60
	// lapsedMany is the same where most leases of a service ended together:
	// that is health, and no authority's word that they are gone.
	lapsedMany = 3600
	// mostLeases of one identity.
	mostLeases = 5000
)

// Registration is an instance that nothing watches, as it is registered.
type Registration struct {
	Service, Address, Zone, Revision string
	By                               string // who registers it, and alone may renew it
	Of                               string // the only service that it may register; empty is any
}

var errNotObserving = fault.New(fault.Unavailable, "ask again in a few seconds", "nothing is registered yet: this control has only just begun to observe, or does not lead")

// Watched says which source a service's instances are known by, other than
// leases: one may not be registered then.
func (t *term) watched(name, address string) error {
	refuse := func(source registry.Source, why string) error {
		return fault.New(fault.Invalid, "what a source watches is not registered by hand", "%s: source %s is the authority on it", why, source)
	}
	if t.lead.Knows(name) {
		return refuse(registry.Host, fmt.Sprintf("service %s is deployed here", name))
	}
	for _, s := range t.reg.Services() {
		for _, x := range t.reg.Of(s) {
			switch {
			case x.Gone || x.Source == registry.Lease:
			case s == name:
				return refuse(x.Source, fmt.Sprintf("service %s has instances", name))
			case x.Address == address:
				return refuse(x.Source, fmt.Sprintf("address %s is instance %s of service %s", address, x.ID, s))
			}
		}
	}
	return nil
}

// Admits says why an instance may not be registered, if so.
func (p *Plane) Admits(r Registration) error {
	t := p.current()
	if t == nil {
		return errNotObserving
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.own(r); err != nil {
		return err
	}
	return t.watched(r.Service, r.Address)
}

// own refuses a workload that registers for another. It is counted.
func (t *term) own(r Registration) error {
	if r.Of == "" || r.Of == r.Service {
		return nil
	}
	t.ingest.Discard(evidence.NotItself, 1)
	return fault.New(fault.Forbidden, "an operator registers for others", "%s may register instances of service %s only, not of %s", r.By, r.Of, r.Service)
}

// Register enters an instance whose address was proved. When it returns, the
// row is on disk.
func (p *Plane) Register(ctx context.Context, r Registration) (id string, err error) {
	t := p.current()
	if t == nil {
		return "", errNotObserving
	}
	t.mu.Lock()
	if err := t.admit(r); err != nil {
		t.mu.Unlock()
		return "", err
	}
	row, _ := t.reg.Put(registry.Instance{
		ID: ulid.Make().String(), Service: r.Service, Revision: r.Revision, Zone: r.Zone, Address: r.Address, Source: registry.Lease, By: r.By, Listening: true,
	})
	t.renewed[row.ID] = t.eval.Now()
	t.mu.Unlock()
	if err := t.lead.Commit(ctx, []store.Write{rowWrite{row: lasting(row)}.write(row.ID)}); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reg.Remove(row.ID)
		delete(t.renewed, row.ID)
		return "", fault.New(fault.Unavailable, "register again", "the registration cannot be recorded: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enter(row)
	t.log.Info("an instance is registered", "service", row.Service, "instance", row.ID, "address", row.Address, "by", r.By)
	return row.ID, nil
}

func (t *term) admit(r Registration) error {
	if err := t.own(r); err != nil {
		return err
	}
	if err := t.watched(r.Service, r.Address); err != nil {
		return err
	}
	mine := 0
	for _, x := range t.reg.Of(r.Service) {
		if x.Address == r.Address && !x.Gone && !x.Terminating && x.Missing == 0 {
			return fault.New(fault.Exists, "deregister it first, or let its lease end", "address %s is registered as instance %s of service %s", r.Address, x.ID, r.Service)
		}
		if x.By == r.By {
			mine++
		}
	}
	if mine >= mostLeases {
		return fault.New(fault.Invalid, "", "%s has %d leases of service %s: no more", r.By, mine, r.Service)
	}
	return nil
}

// lease finds the instance that someone registered. Another's is discarded, and
// counted.
func (t *term) lease(by, id string) (registry.Instance, error) {
	x, known := t.reg.Get(id)
	switch {
	case !known || x.Source != registry.Lease || x.Gone:
		return x, fault.New(fault.NotFound, "register it anew", "no lease is held by an instance %q", id)
	case x.By != by:
		t.ingest.Discard(evidence.NotItself, 1)
		return x, fault.New(fault.Forbidden, "", "instance %s was registered by another identity", id)
	}
	return x, nil
}

// Renew gives a lease its full term anew. The word is evidence of the class
// self.
func (p *Plane) Renew(by, id string, word service.Word) error {
	t := p.current()
	if t == nil {
		return errNotObserving
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x, err := t.lease(by, id)
	if err != nil {
		return err
	}
	if t.lead.Knows(x.Service) {
		return t.watched(x.Service, x.Address)
	}
	t.renewed[id] = t.eval.Now()
	if x.Missing != 0 {
		x.Missing = 0
		t.reg.Put(x)
		t.enter(x)
	}
	t.ingest.Self(x.Handle, x.Handle, selfOf(service.InstanceLive, word, t.inForce(x.Service).Dependencies))
	if t.words[id] = word; word.Equal(service.Word{}) {
		delete(t.words, id)
	}
	return nil
}

// Deregister has a leased instance leave by plan.
func (p *Plane) Deregister(by, id string) error {
	t := p.current()
	if t == nil {
		return errNotObserving
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x, err := t.lease(by, id)
	if err != nil {
		return err
	}
	x.Terminating = true
	t.reg.Put(x)
	t.enter(x)
	t.renewed[id] = t.eval.Now() // it is gone a few ticks from now
	return nil
}

// leases ends those that were not renewed, and lets go of who is gone.
func (t *term) leases() {
	now := t.eval.Now() + 1
	for _, name := range t.reg.Services() {
		rows := slices.DeleteFunc(t.reg.Of(name), func(x registry.Instance) bool { return x.Source != registry.Lease || x.Gone })
		ended := 0
		for _, x := range rows {
			if _, known := t.renewed[x.ID]; !known {
				t.renewed[x.ID] = now // a new term of ours: a full one of theirs
			}
			if now-t.renewed[x.ID] > LeaseFor {
				ended++
			}
		}
		many := int64(lapsed)
		if ended > 1 && 2*ended > len(rows) {
			many = lapsedMany
		}
		for _, x := range rows {
			t.pass(x, now-t.renewed[x.ID], many)
		}
	}
}

// pass is what a lease's age does to its instance.
func (t *term) pass(x registry.Instance, age, lapse int64) {
	switch {
	case x.Terminating && age > linger, age > LeaseFor+lapse:
		x.Gone = true
		delete(t.renewed, x.ID)
	case age > LeaseFor && x.Missing == 0:
		x.Missing = 1
		t.log.Info("a lease ended", "service", x.Service, "instance", x.ID, "address", x.Address)
	default:
		return
	}
	t.reg.Put(x)
	t.enter(x)
}

// unrouted gives services that no deployment routes a view of all that they
// have.
func (t *term) unrouted() {
	for _, name := range t.reg.Services() {
		if t.lead.Knows(name) {
			continue
		}
		r := view.Route{Service: name, Splits: []view.Split{{Percent: 100, Group: name}}}
		for _, x := range t.reg.Of(name) {
			if x.Source != registry.Host && !slices.Contains(r.Splits[0].Allowed, x.Revision) {
				r.Splits[0].Allowed = append(r.Splits[0].Allowed, x.Revision)
			}
		}
		slices.Sort(r.Splits[0].Allowed)
		if known := t.unroutedAs[name]; len(r.Splits[0].Allowed) > 0 && !slices.Equal(known, r.Splits[0].Allowed) {
			t.unroutedAs[name] = r.Splits[0].Allowed
			t.eval.SetRoute(r)
		}
	}
}

// Term is a lease's, for those who renew it.
func Term() time.Duration { return LeaseFor * time.Second }
