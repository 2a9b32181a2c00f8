package discovery

import (
	"context"
	"encoding/json"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// readPolicies reads what owners decided. Of one that cannot be read, that
// which was in force stays: a service that was closed to some is not opened.
func (t *term) readPolicies(ctx context.Context) (map[string]service.Policy, bool) {
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindGovernance)
	if err != nil {
		t.log.Warn("cannot read the policies: those in force stay", "error", err)
		return nil, false
	}
	read := map[string]service.Policy{} // :: service → policy
	for _, d := range docs {
		p := service.DefaultPolicy()
		err := json.Unmarshal(d.Body, &p)
		if err == nil {
			err = p.Check()
		}
		if err == nil {
			read[d.Name] = p
			continue
		}
		t.log.Warn("a policy cannot be used: that which was in force stays", "service", d.Name, "error", err)
		t.mu.Lock()
		if was, is := t.governed[d.Name]; is {
			read[d.Name] = was
		}
		t.mu.Unlock()
	}
	return read, true
}

// policy is what governs a service now.
func (t *term) policy(name string) service.Policy {
	if p, declared := t.governed[name]; declared {
		return p
	}
	return service.DefaultPolicy()
}

// governing is a contract with the ramp that the service's policy has.
func (t *term) governing(name string, c eligibility.Contract) eligibility.Contract {
	r := t.policy(name).Ramp
	if r == nil {
		return c
	}
	c.Ramp, c.Steps = r.Seconds, nil
	for _, x := range r.Steps {
		c.Steps = append(c.Steps, eligibility.Permille(x*1000+0.5))
	}
	return c
}

// Policy is what governs a service now. False says that nothing is known: this
// control does not lead, or has only just begun to.
func (p *Plane) Policy(name string) (service.Policy, bool) {
	t := p.current()
	if t == nil {
		return service.Policy{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.policy(name), true
}
