package discovery

import (
	"context"
	"encoding/json"
	"time"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// External is a service of somebody else's, as a person declared it: of its
// endpoints nothing is known but what became of calls to them.
type External struct {
	Service   string             `json:"service"`
	Endpoints []ExternalEndpoint `json:"endpoints"`
}

// ExternalEndpoint is one of them. Its identity is minted when it is declared,
// and again when it is declared anew after it was taken back.
type ExternalEndpoint struct {
	ID      string `json:"id"`
	Address string `json:"address"` // host:port, or a URL
	Zone    string `json:"zone,omitempty"`
}

// readExternals takes in what people declared, where the store changed since. What
// is taken back is gone: the document explains it.
func (t *term) readExternals(ctx context.Context) bool {
	at := t.lead.Sequence()
	t.mu.Lock()
	same := at == t.externalsAt && at != 0
	t.mu.Unlock()
	if same {
		return true
	}
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindExternal)
	if err != nil {
		t.log.Warn("cannot read the external services: those that are known stay", "error", err)
		return false
	}
	l := registry.Listing{Source: registry.External}
	for _, d := range docs {
		var x External
		if err := json.Unmarshal(d.Body, &x); err != nil {
			t.log.Warn("an external service cannot be read: all that are known stay", "record", d.Key, "error", err)
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.declaredBad.IsZero() {
				t.declaredBad = time.Now()
			}
			return true
		}
		for _, e := range x.Endpoints {
			l.Rows = append(l.Rows, registry.Instance{
				ID: e.ID, Service: d.Name, Address: e.Address, Zone: e.Zone, Listening: true, Source: registry.External,
			})
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.externalsAt, t.declared, t.declaredAt, t.declaredBad = at, l.Rows, time.Now(), time.Time{}
	for i, x := range l.Rows {
		l.Rows[i].Handle = t.handles[x.ID]
	}
	s := t.reg.Sync(l, func(registry.Instance) bool { return true })
	for _, x := range append(s.Changed, s.Gone...) {
		t.enter(x)
	}
	return true
}

// external reports whether a service is somebody else's. It is asked for each
// instance in each second.
func (t *term) external(name string) bool { return t.reg.Only(name, registry.External) }
