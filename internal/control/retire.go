package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// RetireHost ends the membership of a host on a person's word that it will not
// come back: what it ran is placed elsewhere, and nothing waits for it any more.
// It fails as fault.NotFound for one that is not known, as fault.Conflict for
// one that is connected, and as fault.Unavailable while what it ran may serve
// still.
func (c *Control) RetireHost(ctx context.Context, name string) error {
	t, err := c.leads(ctx)
	if err != nil {
		return err
	}
	for {
		old := t.mirror.host(name)
		if old.Version == 0 || old.Value.Retired {
			return fault.New(fault.NotFound, "list the known ones by: fairlead hosts", "there is no host %q", name)
		}
		if err := t.mayRetire(name); err != nil {
			return err
		}
		next := old.Value
		next.Retired, next.Draining = true, false
		_, err := t.led.apply(ctx, put(key(service.KindHost, name), old.Version, next))
		if err == nil {
			t.c.log.Info("a host was retired", "host", name)
			return nil
		}
		if !errors.Is(err, saga.ErrStale) {
			return fmt.Errorf("cannot retire host %s: %w", name, err)
		}
	}
}

// DrainHost says by a person's word whether anything is to run on a host:
// where not, nothing is placed there, and what runs is served elsewhere. It is
// done already where the host is as it says, and fails as fault.NotFound for one
// that is not known.
func (c *Control) DrainHost(ctx context.Context, name string, drain bool) error {
	t, err := c.leads(ctx)
	if err != nil {
		return err
	}
	for {
		old := t.mirror.host(name)
		if old.Version == 0 || old.Value.Retired {
			return fault.New(fault.NotFound, "list the known ones by: fairlead hosts", "there is no host %q", name)
		}
		if old.Value.Draining == drain {
			return nil
		}
		next := old.Value
		next.Draining = drain
		_, err := t.led.apply(ctx, put(key(service.KindHost, name), old.Version, next))
		if err == nil {
			t.c.log.Info("a host is to be drained, or not any more", "host", name, "drain", drain)
			return nil
		}
		if !errors.Is(err, saga.ErrStale) {
			return fmt.Errorf("cannot record that host %s is to be drained: %w", name, err)
		}
	}
}

// mayRetire refuses a host that is there, and one whose instances may serve: a
// gateway uses them until its connections to them fail.
func (t *term) mayRetire(name string) error {
	silent := time.Since(t.began)
	for _, h := range t.c.cfg.Hosts.States() {
		if h.Name != name {
			continue
		}
		if h.Connected {
			return fault.New(fault.Conflict, "end its process first (fairlead host); what it runs is then placed elsewhere",
				"host %s is connected and runs %s", name, plural(len(slices.DeleteFunc(slices.Clone(h.Instances), ended)), "instance"))
		}
		if h.Left {
			return nil
		}
		silent = min(h.Silent, silent)
	}
	if left := hostGone - silent; left > 0 {
		return fault.New(fault.Unavailable, fmt.Sprintf("run it again in %s", left.Round(time.Second)),
			"host %s has not been away for %s yet: what it ran may still serve", name, hostGone)
	}
	if g := t.clocks.polling(t.gateways())[name]; g != "" {
		return fault.New(fault.Unavailable, "end its process first (fairlead host)", "host %s polls gateway %s: what it runs serves", name, g)
	}
	return nil
}

func ended(i service.Instance) bool { return i.State == service.InstanceExited }
