package discovery

import (
	"context"
	"encoding/json"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// readContracts reads what services declare, where the store changed since. A
// contract that cannot be read, or is dangerous, is as none.
func (t *term) readContracts(ctx context.Context) bool {
	at := t.lead.Sequence()
	t.mu.Lock()
	same := at == t.readAt && at != 0
	t.mu.Unlock()
	if same {
		return true
	}
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindContract)
	if err != nil {
		t.log.Warn("cannot read the contracts: those in force stay", "error", err)
		return false
	}
	read := map[string]eligibility.Contract{} // :: service → contract
	for _, d := range docs {
		c := DefaultContract()
		err := json.Unmarshal(d.Body, &c)
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			t.log.Warn("a contract cannot be used: the default is in force", "service", d.Name, "error", err)
			continue
		}
		read[d.Name] = c
	}
	governed, ok := t.readPolicies(ctx)
	if !ok {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, was := t.contracts, t.governed
	t.contracts, t.governed, t.readAt = read, governed, at
	for name := range t.known {
		if !alike(old, read, name) || !alike(was, governed, name) {
			t.contract(name)
			t.knowAll(name)
		}
	}
	return true
}

func alike[T any](a, b map[string]T, name string) bool {
	x, inA := a[name]
	y, inB := b[name]
	if inA != inB {
		return false
	}
	return string(encode(x)) == string(encode(y))
}

func encode(x any) []byte {
	b, err := json.Marshal(x)
	if err != nil { // it holds nothing that JSON cannot say
		panic("discovery: cannot encode what governs a service: " + err.Error())
	}
	return b
}

// inForce is the contract by which a service is read now. Until the term has
// lasted a whole interval silence condemns nobody: it may have been ours.
func (t *term) inForce(name string) eligibility.Contract {
	c, declared := t.contracts[name]
	if !declared {
		c = DefaultContract()
	}
	if t.external(name) { // nothing else is to be had of it
		c.Profile = eligibility.Profile{Outcomes: true}
	}
	c = t.governing(name, t.lookable(c))
	if t.eval.Now() < t.first+int64(c.SilentAfter) {
		c.SilenceFails = false
	}
	return c
}

// contract puts a service's contract in force.
func (t *term) contract(name string) {
	t.known[name] = true
	t.eval.SetService(name, t.inForce(name), t.policy(name).Guard.Policy())
	t.eval.SetCallers(name, t.policy(name).AllowedCallers)
	t.eval.SetZones(name, t.policy(name).Zones == service.AnyZone)
}

// endGrace puts contracts in force that were lenient at the term's beginning.
func (t *term) endGrace() {
	for name, c := range t.contracts {
		if c.SilenceFails && t.known[name] && t.eval.Now() == t.first+int64(c.SilentAfter) {
			t.contract(name)
		}
	}
}
