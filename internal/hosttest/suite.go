package hosttest

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// Hosts is the port under test.
type Hosts interface {
	States() []service.HostState
	Changed() <-chan struct{}
	Prepare(ctx context.Context, e view.Epoch, host, revision string, t service.Template) error
	Assign(ctx context.Context, e view.Epoch, host string, a service.Assignment) error
	Stop(ctx context.Context, e view.Epoch, host string, s service.Stop) error
	Release(ctx context.Context, e view.Epoch, host string, r service.Release) error
}

// Program is one that every world can run.
type Program string

const (
	Serves       Program = "serves"        // ready at once, runs until it is stopped
	Exits        Program = "exits"         // serves, and exits after about 200 ms with status 3
	NeverListens Program = "never-listens" // runs and opens no socket
	WrongPort    Program = "wrong-port"    // listens on another port than its own
	Missing      Program = "missing"       // its command does not exist
)

// World is one implementation with at least two hosts, which run nothing.
type World struct {
	Hosts Hosts
	// Names of the hosts, in order.
	Names []string
	// Epoch in force. Its number is at least 2.
	Epoch view.Epoch
	// Template that runs a program.
	Template func(Program) service.Template
	// Crash ends a host's process as kill -9 does; Connect starts it again.
	Crash   func(host string)
	Connect func(host string)
}

// Run holds an implementation against every promise of the port.
func Run(t *testing.T, open func(t *testing.T) World) {
	promises := []struct {
		name string
		hold func(*testing.T, *fixture)
	}{
		{"EveryHostIsListedByName", everyHostIsListed},
		{"AnAssignedSlotBecomesLive", assignedBecomesLive},
		{"LiveForGrowsWithoutAReport", liveForGrows},
		{"TheSameAssignmentTwiceIsOneProcess", sameAssignmentTwice},
		{"AStoppedSlotLeavesTheStates", stoppedLeaves},
		{"StoppingAnUnknownSlotIsDoneAlready", stopUnknown},
		{"ASlotCanBeAssignedAgainAfterItsStop", assignAfterStop},
		{"AnOlderEpochIsRefusedAndChangesNothing", olderRefused},
		{"ARivalEpochIsRefused", rivalRefused},
		{"AnotherIncarnationIsAcceptedAndTheOldOneStaysFenced", foreignAccepted},
		{"AProgramThatExitsIsSeenRestarting", exitsRestarts},
		{"AProcessStartedAgainSaysHowTheOneBeforeItEnded", restartedSaysBefore},
		{"AProgramThatNeverListensIsNotLive", neverListens},
		{"AProgramOnAnotherPortIsToldSo", wrongPort},
		{"AHigherRoundReplacesTheProcessOnceTheNewOneIsLive", higherRound},
		{"ALowerRoundChangesNothing", lowerRound},
		{"AnAssignmentOfAnotherLifeOfASlotsNameReplacesTheProcessAtOnce", anotherLifeReplaces},
		{"WhatCannotRunBesideAnotherWaitsForTheEndOfAnEarlierLife", exclusiveLifeWaits},
		{"AStopOfAnotherLifeOfASlotsNameChangesNothing", anotherLifeSpared},
		{"WhatHasNoIdentityIsOfAnyLife", noIdentity},
		{"PrepareRefusesACommandThatDoesNotExist", prepareMissing},
		{"PrepareRunsNothing", prepareRunsNothing},
		{"ACommandToAnUnknownHostFails", unknownHost},
		{"ACommandWithAnEndedContextFails", endedContext},
		{"ACrashedHostsInstancesLiveOnAndAreAdopted", crashAdopts},
	}
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			w := open(t)
			if len(w.Names) < 2 || w.Epoch.Number < 2 {
				t.Fatalf("world has %d hosts and epoch %v, want two and a number of 2", len(w.Names), w.Epoch)
			}
			p.hold(t, &fixture{World: w, host: w.Names[0]})
		})
	}
}

// fixture is a world and the host that most promises are tried on.
type fixture struct {
	World
	host string
}

func (f *fixture) assignment(p Program, slot string) service.Assignment {
	return service.Assignment{
		Slot: slot, Service: "hello", Revision: "hello-00001", Group: "hello-00001", Template: f.Template(p),
	}
}

func (f *fixture) assign(t *testing.T, a service.Assignment) {
	t.Helper()
	if err := f.Hosts.Assign(t.Context(), f.Epoch, f.host, a); err != nil {
		t.Fatalf("Assign %s: %v", a.Slot, err)
	}
}

func (f *fixture) stop(t *testing.T, slot string) {
	t.Helper()
	if err := f.Hosts.Stop(t.Context(), f.Epoch, f.host, service.Stop{Slot: slot, Drain: time.Second}); err != nil {
		t.Fatalf("Stop %s: %v", slot, err)
	}
}

// instances of one slot, as the states have them now.
func (f *fixture) instances(slot string) []service.Instance {
	var out []service.Instance
	for _, st := range f.Hosts.States() {
		for _, in := range st.Instances {
			if st.Name == f.host && in.Slot == slot {
				out = append(out, in)
			}
		}
	}
	return out
}

// patience is far above what any promise takes on a loaded machine.
const patience = 30 * time.Second

// await returns the slot's instances once they satisfy ok. It looks at every
// change, and every 20 ms besides, because LiveFor grows without one.
func (f *fixture) await(t *testing.T, slot, what string, ok func([]service.Instance) bool) []service.Instance {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		changed := f.Hosts.Changed()
		got := f.instances(slot)
		if ok(got) {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("slot %s: no %s within %v, have %+v", slot, what, patience, got)
		}
		again := time.NewTimer(20 * time.Millisecond)
		select {
		case <-changed:
		case <-again.C:
		}
		again.Stop()
	}
}

func (f *fixture) awaitLive(t *testing.T, slot string) service.Instance {
	t.Helper()
	return f.await(t, slot, "one live instance", func(list []service.Instance) bool {
		return len(list) == 1 && list[0].State == service.InstanceLive
	})[0]
}

func (f *fixture) awaitNone(t *testing.T, slot string) {
	t.Helper()
	f.await(t, slot, "empty slot", func(list []service.Instance) bool { return len(list) == 0 })
}
