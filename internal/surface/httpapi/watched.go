package httpapi

import (
	"context"

	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// unwatched refuses to deploy under a name whose instances another source is
// the authority on: leases, or what was declared of somebody else's service. It
// adds to the change what must still be so when it is written.
func (a *API) unwatched(ctx context.Context, c *change) error {
	if c.next.Deleted || c.old != nil && !c.old.Deleted {
		return nil
	}
	name := c.next.Service
	_, _, declared, err := get[discovery.External](ctx, a.Store, service.KindExternal, name)
	if err != nil {
		return err
	}
	if declared {
		return fault.New(fault.Invalid, "choose another name, or take the declaration back first: fairlead external delete "+name,
			"service %s is declared as somebody else's: source external is the authority on its endpoints", name)
	}
	c.checks = append(c.checks, store.Check{Key: store.Key{Kind: service.KindExternal, Name: name}})
	return a.unleased(ctx, name, "choose another name, or have them deregistered first; a lease that is not renewed is gone after a minute and a half")
}

// unleased refuses a name of which instances are registered.
func (a *API) unleased(ctx context.Context, name, hint string) error {
	rows, _, err := list[registry.Instance](ctx, a.Store, service.KindInstance, nil)
	if err != nil {
		return err
	}
	leases := 0
	for _, x := range rows {
		if x.Service == name && x.Source == registry.Lease && !x.Gone && !x.Terminating {
			leases++
		}
	}
	if leases > 0 {
		return fault.New(fault.Invalid, hint, "service %s has %d registered: source lease is the authority on them", name, leases)
	}
	return nil
}

// undeclared refuses to register for a service that is declared as somebody
// else's: by the record, since a declaration that was just answered is in the
// registry a second later.
func (a *API) undeclared(ctx context.Context, name string) error {
	_, _, declared, err := get[discovery.External](ctx, a.Store, service.KindExternal, name)
	if err == nil && declared {
		err = fault.New(fault.Invalid, "what a source watches is not registered by hand",
			"service %s is declared as somebody else's: source external is the authority on it", name)
	}
	return err
}
