package hosttest

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// of makes an assignment one of a life of its slot's name.
func of(minted string, a service.Assignment) service.Assignment {
	a.Minted = minted
	return a
}

// anotherLifeReplaces: names begin anew when a service is made again. Neither
// the round nor the new process's being live is waited for.
func anotherLifeReplaces(t *testing.T, f *fixture) {
	old := of("old", f.assignment(Serves, "hello-00001.0"))
	old.Round = 3
	f.assign(t, old)
	first := f.awaitLive(t, old.Slot)
	if first.Minted != "old" {
		t.Errorf("the instance is of life %q, want old", first.Minted)
	}
	f.assign(t, of("new", f.assignment(NeverListens, old.Slot)))
	f.await(t, old.Slot, "process of the new life alone", func(list []service.Instance) bool {
		return len(list) == 1 && list[0].ID != first.ID && list[0].Minted == "new" && list[0].Round == 0
	})
}

func exclusiveLifeWaits(t *testing.T, f *fixture) {
	old := of("old", f.assignment(Serves, "hello-00001.0"))
	f.assign(t, old)
	f.awaitLive(t, old.Slot)
	next := of("new", f.assignment(Serves, old.Slot))
	next.Template.Handover = service.HandoverExclusive
	f.assign(t, next)
	f.await(t, old.Slot, "live process of the new life", func(list []service.Instance) bool {
		run := slices.DeleteFunc(list, func(i service.Instance) bool { return i.State == service.InstanceExited })
		if len(run) > 1 {
			t.Fatalf("two lives run at once: %+v", run)
		}
		return len(run) == 1 && run[0].Minted == "new" && run[0].State == service.InstanceLive
	})
}

func anotherLifeSpared(t *testing.T, f *fixture) {
	a := of("new", f.assignment(Serves, "hello-00001.0"))
	f.assign(t, a)
	first := f.awaitLive(t, a.Slot)
	if err := f.Hosts.Stop(t.Context(), f.Epoch, f.host, service.Stop{Slot: a.Slot, Minted: "old", Drain: time.Second}); err != nil {
		t.Fatal(err)
	}
	f.assign(t, f.assignment(Serves, "hello-00001.1")) // what follows the stop is seen after it
	f.awaitLive(t, "hello-00001.1")
	if again := f.awaitLive(t, a.Slot); again.ID != first.ID {
		t.Errorf("the stop of another life made %s into %s", first.ID, again.ID)
	}
	if err := f.Hosts.Stop(t.Context(), f.Epoch, f.host, service.Stop{Slot: a.Slot, Minted: "new", Drain: time.Second}); err != nil {
		t.Fatal(err)
	}
	f.awaitNone(t, a.Slot)
}

// noIdentity: processes and commands from before there were identities.
func noIdentity(t *testing.T, f *fixture) {
	a := f.assignment(Serves, "hello-00001.0")
	f.assign(t, a)
	first := f.awaitLive(t, a.Slot)
	f.assign(t, of("new", a))
	f.assign(t, f.assignment(Serves, "hello-00001.1")) // what follows is seen after it
	f.awaitLive(t, "hello-00001.1")
	if list := f.instances(a.Slot); !slices.ContainsFunc(list, func(i service.Instance) bool { return i.ID == first.ID }) || len(list) != 1 {
		t.Errorf("%s was replaced by %+v", first.ID, list)
	}
	f.stop(t, a.Slot) // names no life
	f.awaitNone(t, a.Slot)
}
