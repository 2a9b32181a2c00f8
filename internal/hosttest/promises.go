package hosttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func everyHostIsListed(t *testing.T, f *fixture) {
	var names []string
	for _, st := range f.Hosts.States() {
		names = append(names, st.Name)
		if !st.Connected || !st.Reported || st.Zone == "" {
			t.Errorf("host %s: connected %v, reported %v, zone %q", st.Name, st.Connected, st.Reported, st.Zone)
		}
	}
	if !slices.Equal(names, f.Names) || !slices.IsSorted(names) {
		t.Errorf("hosts are %v, want %v in order", names, f.Names)
	}
}

func assignedBecomesLive(t *testing.T, f *fixture) {
	f.assign(t, f.assignment(Serves, "hello-00001.0"))
	in := f.awaitLive(t, "hello-00001.0")
	if in.ID == "" || in.Pid == 0 || in.Host != f.host || in.Zone == "" || in.Service != "hello" || in.Revision != "hello-00001" {
		t.Errorf("instance is incomplete: %+v", in)
	}
	if _, port, err := net.SplitHostPort(in.Address); err != nil || port == "0" {
		t.Errorf("address %q is no host:port", in.Address)
	}
	if in.Restarts != 0 || in.Adopted {
		t.Errorf("fresh instance has %d restarts, adopted %v", in.Restarts, in.Adopted)
	}
}

func liveForGrows(t *testing.T, f *fixture) {
	f.assign(t, f.assignment(Serves, "hello-00001.0"))
	first := f.awaitLive(t, "hello-00001.0")
	f.await(t, "hello-00001.0", "growing LiveFor", func(list []service.Instance) bool {
		return len(list) == 1 && list[0].LiveFor >= first.LiveFor+150*time.Millisecond
	})
}

func sameAssignmentTwice(t *testing.T, f *fixture) {
	a := f.assignment(Serves, "hello-00001.0")
	f.assign(t, a)
	first := f.awaitLive(t, a.Slot)
	f.assign(t, a)
	f.assign(t, f.assignment(Serves, "hello-00001.1")) // what follows the repeated one is seen after it
	f.awaitLive(t, "hello-00001.1")
	if again := f.awaitLive(t, a.Slot); again.ID != first.ID {
		t.Errorf("the same assignment made %s into %s", first.ID, again.ID)
	}
}

func stoppedLeaves(t *testing.T, f *fixture) {
	f.assign(t, f.assignment(Serves, "hello-00001.0"))
	f.awaitLive(t, "hello-00001.0")
	f.stop(t, "hello-00001.0")
	f.awaitNone(t, "hello-00001.0")
	f.stop(t, "hello-00001.0") // a second stop is done already
}

func stopUnknown(t *testing.T, f *fixture) { f.stop(t, "nobody-00001.0") }

func assignAfterStop(t *testing.T, f *fixture) {
	a := f.assignment(Serves, "hello-00001.0")
	f.assign(t, a)
	first := f.awaitLive(t, a.Slot)
	f.stop(t, a.Slot)
	f.assign(t, a)
	second := f.await(t, a.Slot, "another live instance", func(list []service.Instance) bool {
		return len(list) == 1 && list[0].State == service.InstanceLive && list[0].ID != first.ID
	})[0]
	if second.Restarts != 0 {
		t.Errorf("a new assignment begins with %d restarts", second.Restarts)
	}
}

func refused(err error) bool {
	return errors.Is(err, fault.Superseded) || errors.Is(err, fault.Conflict)
}

func olderRefused(t *testing.T, f *fixture) {
	a := f.assignment(Serves, "hello-00001.0")
	f.assign(t, a)
	f.awaitLive(t, a.Slot)
	older := f.Epoch
	older.Number--
	older.Nonce = "slept"
	for what, err := range map[string]error{
		"stop":    f.Hosts.Stop(t.Context(), older, f.host, service.Stop{Slot: a.Slot}),
		"assign":  f.Hosts.Assign(t.Context(), older, f.host, f.assignment(Serves, "hello-00001.1")),
		"prepare": f.Hosts.Prepare(t.Context(), older, f.host, "hello-00001", a.Template),
	} {
		if !refused(err) {
			t.Errorf("%s of an older epoch: %v, want a refusal", what, err)
		}
	}
	f.assign(t, f.assignment(Serves, "hello-00001.2"))
	f.awaitLive(t, "hello-00001.2")
	if n := len(f.instances("hello-00001.1")); n != 0 {
		t.Errorf("the refused assignment runs %d processes", n)
	}
	f.awaitLive(t, a.Slot)
}

func rivalRefused(t *testing.T, f *fixture) {
	f.assign(t, f.assignment(Serves, "hello-00001.0"))
	rival := f.Epoch
	rival.Nonce += "-other"
	if err := f.Hosts.Stop(t.Context(), rival, f.host, service.Stop{Slot: "hello-00001.0"}); !refused(err) {
		t.Errorf("stop by a rival: %v, want a refusal", err)
	}
	f.awaitLive(t, "hello-00001.0")
}

func foreignAccepted(t *testing.T, f *fixture) {
	a := f.assignment(Serves, "hello-00001.0")
	f.assign(t, a)
	f.awaitLive(t, a.Slot)
	old := f.Epoch
	f.Epoch.Incarnation, f.Epoch.Number = "restored-from-nothing", 1
	f.stop(t, a.Slot)
	f.awaitNone(t, a.Slot)
	old.Number--
	if err := f.Hosts.Assign(t.Context(), old, f.host, a); !refused(err) {
		t.Errorf("an older epoch of the earlier incarnation: %v, want a refusal", err)
	}
}

func exitsRestarts(t *testing.T, f *fixture) {
	f.assign(t, f.assignment(Exits, "hello-00001.0"))
	seen := map[string]bool{}
	f.await(t, "hello-00001.0", "third process", func(list []service.Instance) bool {
		for _, in := range list {
			seen[in.ID] = true
			if in.LiveFor > 2*time.Second {
				t.Errorf("instance %s is live for %v though it exits each 200 ms", in.ID, in.LiveFor)
			}
		}
		return slices.ContainsFunc(list, func(in service.Instance) bool { return in.Restarts >= 2 })
	})
	if len(seen) < 2 {
		t.Errorf("three processes shared identities: %v", seen)
	}
	f.await(t, "hello-00001.0", "exited instance with its status", func(list []service.Instance) bool {
		return slices.ContainsFunc(list, func(in service.Instance) bool {
			return in.State == service.InstanceExited && in.ExitStatus == "exit status 3"
		})
	})
}

func restartedSaysBefore(t *testing.T, f *fixture) {
	f.assign(t, f.assignment(Exits, "hello-00001.0"))
	f.await(t, "hello-00001.0", "second process that says how the first ended", func(list []service.Instance) bool {
		return slices.ContainsFunc(list, func(in service.Instance) bool {
			return in.State != service.InstanceExited && strings.Contains(in.Detail, "the process before it ended with: exit status 3") &&
				strings.HasPrefix(in.Before, "exit status 3")
		})
	})
}

func neverListens(t *testing.T, f *fixture) {
	f.assign(t, f.assignment(NeverListens, "hello-00001.0"))
	f.await(t, "hello-00001.0", "detail that names the port", func(list []service.Instance) bool {
		if len(list) != 1 {
			return false
		}
		_, port, _ := net.SplitHostPort(list[0].Address)
		return list[0].State == service.InstanceStarting && strings.Contains(list[0].Detail, port)
	})
}

func wrongPort(t *testing.T, f *fixture) {
	f.assign(t, f.assignment(WrongPort, "hello-00001.0"))
	f.await(t, "hello-00001.0", "detail that says where it listens", func(list []service.Instance) bool {
		if len(list) != 1 || list[0].State != service.InstanceStarting {
			return false
		}
		_, port, _ := net.SplitHostPort(list[0].Address)
		return strings.Contains(list[0].Detail, "not on its PORT "+port)
	})
}

func higherRound(t *testing.T, f *fixture) {
	a := f.assignment(Serves, "hello-00001.0")
	f.assign(t, a)
	first := f.awaitLive(t, a.Slot)
	a.Round, a.Dwell = 1, 300*time.Millisecond
	const transit = 100 * time.Millisecond // what is shown of LiveFor lags behind the host
	f.assign(t, a)
	f.await(t, a.Slot, "replacement alone", func(list []service.Instance) bool {
		oldServes := slices.ContainsFunc(list, func(in service.Instance) bool {
			return in.ID == first.ID && in.State == service.InstanceLive
		})
		i := slices.IndexFunc(list, func(in service.Instance) bool { return in.Round == 1 })
		if !oldServes && (i < 0 || list[i].State != service.InstanceLive || list[i].LiveFor < a.Dwell-transit) {
			t.Fatalf("the old process was withdrawn before the new one had dwelt: %+v", list)
		}
		if len(list) > 2 {
			t.Fatalf("more than two processes in a slot: %+v", list)
		}
		return len(list) == 1 && list[0].Round == 1
	})
}

func lowerRound(t *testing.T, f *fixture) {
	a := f.assignment(Serves, "hello-00001.0")
	a.Round = 2
	f.assign(t, a)
	first := f.awaitLive(t, a.Slot)
	a.Round = 1
	f.assign(t, a)
	f.assign(t, f.assignment(Serves, "hello-00001.1"))
	f.awaitLive(t, "hello-00001.1")
	if again := f.awaitLive(t, a.Slot); again.ID != first.ID || again.Round != 2 {
		t.Errorf("a lower round made %+v of %+v", again, first)
	}
}

func prepareMissing(t *testing.T, f *fixture) {
	err := f.Hosts.Prepare(t.Context(), f.Epoch, f.host, "hello-00001", f.Template(Missing))
	if !errors.Is(err, fault.Invalid) {
		t.Errorf("Prepare of a missing command: %v, want it refused as invalid", err)
	}
}

func prepareRunsNothing(t *testing.T, f *fixture) {
	if err := f.Hosts.Prepare(t.Context(), f.Epoch, f.host, "hello-00001", f.Template(Serves)); err != nil {
		t.Fatal(err)
	}
	for _, st := range f.Hosts.States() {
		if len(st.Instances) != 0 {
			t.Errorf("host %s runs %+v", st.Name, st.Instances)
		}
	}
}

func unknownHost(t *testing.T, f *fixture) {
	err := f.Hosts.Assign(t.Context(), f.Epoch, "nowhere", f.assignment(Serves, "hello-00001.0"))
	if !errors.Is(err, fault.Unavailable) {
		t.Errorf("Assign to an unknown host: %v, want unavailable", err)
	}
}

func endedContext(t *testing.T, f *fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Hosts.Assign(ctx, f.Epoch, f.host, f.assignment(Serves, "hello-00001.0")); err == nil {
		t.Error("a command with an ended context says that it was done")
	}
}

func crashAdopts(t *testing.T, f *fixture) {
	var before []service.Instance
	for i := range 2 {
		slot := fmt.Sprintf("hello-00001.%d", i)
		f.assign(t, f.assignment(Serves, slot))
		before = append(before, f.awaitLive(t, slot))
	}
	f.Crash(f.host)
	f.Connect(f.host)
	for _, was := range before {
		now := f.await(t, was.Slot, "adopted instance", func(list []service.Instance) bool {
			return len(list) == 1 && list[0].State == service.InstanceLive && list[0].Adopted
		})[0]
		if now.ID != was.ID || now.Pid != was.Pid || now.Address != was.Address {
			t.Errorf("adopted %+v, which was %+v", now, was)
		}
	}
}
