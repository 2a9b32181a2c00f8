package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Admits refuses what the script has deployed.
func (p *plane) Admits(r discovery.Registration) error {
	var d service.Desired
	if err := p.read(service.KindDesired, r.Service, &d); err != nil || d.Service == "" {
		return err
	}
	return fault.New(fault.Invalid, "what a source watches is not registered by hand", "service %s is deployed here: source host is the authority on it", r.Service)
}

// Register enters the row, as the leader does.
func (p *plane) Register(_ context.Context, r discovery.Registration) (string, error) {
	id := "lease-of-" + r.Service
	return id, p.put(service.KindInstance, id, registry.Instance{ID: id, Handle: 1, Service: r.Service, Source: registry.Lease, By: r.By, Address: r.Address})
}

func (p *plane) Renew(string, string, service.Word) error { return nil }

func (p *plane) Deregister(_, id string) error { return p.erase(service.KindInstance, id) }

// awaitLease waits until a service has a lease, or none.
func (p *plane) awaitLease(name string, want bool) error {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var row registry.Instance
		if err := p.read(service.KindInstance, "lease-of-"+name, &row); err != nil {
			return err
		}
		if (row.ID != "") == want {
			return nil
		}
	}
	return fmt.Errorf("a lease of %s: never %v", name, want)
}
