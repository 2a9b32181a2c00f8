package hosttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

var epoch = view.Epoch{Incarnation: "world", Number: 7, Nonce: "leader"}

func fleet() *hosttest.Sim {
	return hosttest.NewSim(service.Host{Name: "alpha", Zone: "a"}, service.Host{Name: "beta", Zone: "b"})
}

func TestTheSimulatedFleetKeepsThePromisesOfThePort(t *testing.T) {
	hosttest.Run(t, func(t *testing.T) hosttest.World {
		sim := fleet()
		sim.Behave(func(_ string, a service.Assignment) hosttest.Behaviour {
			if len(a.Template.Command) == 0 {
				return hosttest.Behaviour{}
			}
			switch hosttest.Program(a.Template.Command[0]) {
			case hosttest.Exits:
				return hosttest.Behaviour{ExitAfter: 200 * time.Millisecond, ExitStatus: "exit status 3"}
			case hosttest.NeverListens:
				return hosttest.Behaviour{NeverListens: true}
			case hosttest.WrongPort:
				return hosttest.Behaviour{WrongPort: 8000}
			case hosttest.Missing:
				return hosttest.Behaviour{Refuse: "cannot find it"}
			}
			return hosttest.Behaviour{}
		})
		return hosttest.World{
			Hosts: sim, Names: []string{"alpha", "beta"}, Epoch: epoch,
			Template: func(p hosttest.Program) service.Template {
				return service.Template{Command: []string{string(p)}}
			},
			Crash: sim.Crash, Connect: sim.Connect,
		}
	})
}

func assign(t *testing.T, s *hosttest.Sim, slot string) {
	t.Helper()
	if err := s.Assign(t.Context(), epoch, "alpha", service.Assignment{Slot: slot, Service: "x", Revision: "x-00001"}); err != nil {
		t.Fatal(err)
	}
}

func TestTheSimulationRunsInAVirtualClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleet()
		s.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{ReadyAfter: time.Second, ExitAfter: 2500 * time.Millisecond}
		})
		assign(t, s, "x-00001.0")
		time.Sleep(time.Minute)
		in := s.Running()
		if len(s.States()[0].Instances) != 1 {
			t.Fatalf("have %+v, want one instance, running or exited", in)
		}
		if r := s.States()[0].Instances[0].Restarts; r < 5 || r > 12 {
			t.Errorf("%d restarts in a minute with back-off", r)
		}
	})
}

func TestAnUnansweredCommandStillLands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleet()
		s.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{CommandDelay: time.Second}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := s.Assign(ctx, epoch, "alpha", service.Assignment{Slot: "x-00001.0"})
		if !errors.Is(err, fault.Unknown) || len(s.Running()) != 0 {
			t.Fatalf("Assign: %v with %d running, want unknown and none yet", err, len(s.Running()))
		}
		time.Sleep(time.Second)
		if len(s.Running()) != 1 {
			t.Error("the command that timed out did not land")
		}
	})
}

func TestADisconnectedHostShowsWhatItLastReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleet()
		assign(t, s, "x-00001.0")
		s.Disconnect("alpha")
		s.Kill(s.Running()[0].ID)
		time.Sleep(3 * time.Second)
		st := s.States()[0]
		if st.Connected || st.Silent != 3*time.Second || st.Instances[0].State != service.InstanceLive {
			t.Errorf("have %+v, want the live instance of 3 s ago", st)
		}
		s.Connect("alpha")
		if got := s.States()[0].Instances; len(got) != 1 || got[0].Restarts != 1 {
			t.Errorf("have %+v, want the restarted instance", got)
		}
	})
}

func TestALostMachineRunsItsSlotsAgainWhenItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleet()
		assign(t, s, "x-00001.0")
		was := s.Running()[0].ID
		s.Lose("alpha")
		if n := len(s.Running()); n != 0 {
			t.Fatalf("%d processes run on a lost machine", n)
		}
		s.Connect("alpha")
		if got := s.Running(); len(got) != 1 || got[0].ID == was {
			t.Errorf("have %+v, want one new instance", got)
		}
	})
}
