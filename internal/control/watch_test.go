package control

import (
	"errors"
	"slices"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestTheLastOutputOfAProcessThatFailsAgainAndAgainIsNotForgottenWhileTheNextOneRuns(t *testing.T) {
	slots := []service.Slot{{ID: "s.0", Host: "a"}}
	w := newWatch(defaultDwell, service.Revision{}, 0)
	seen := func(state service.InstanceState, lines ...string) *service.World {
		return &service.World{
			Hosts:     map[string]service.HostState{"a": {Connected: true}},
			Instances: map[string][]service.Instance{"s.0": {{ID: "i", Slot: "s.0", Host: "a", State: state, LastLines: lines}}},
		}
	}
	w.ready(slots, seen(service.InstanceExited, "it gives up"))
	live := seen(service.InstanceLive)
	w.ready(slots, live)
	var f *saga.Failure
	if err := w.notReady(slots, live, "not ready"); !errors.As(err, &f) || !slices.Equal(f.LastLines, []string{"it gives up"}) {
		t.Errorf("%+v", f)
	}
}
