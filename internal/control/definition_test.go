package control

import (
	"slices"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestEachKindOfSagaSaysHowItsStepsAreUndoneOrWhyNot(t *testing.T) {
	j := &job{}
	for _, kind := range []string{
		service.WorkDeploy, service.WorkScale, service.WorkRestart, service.WorkTraffic, service.WorkDelete, service.WorkCollect,
	} {
		d, ok := j.definition(kind)
		if !ok || d.Kind != kind {
			t.Fatalf("%s is not defined", kind)
		}
		if err := d.Check(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, ok := j.definition(service.WorkObserve); ok {
		t.Error("what is no saga is defined as one")
	}
}

func TestADeployHasItsSixSteps(t *testing.T) {
	var names []string
	for _, s := range (&job{}).deploy().Steps {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"queue", "install", "instances", "ready", "routes", "finalize"}) {
		t.Errorf("its steps are %q", names)
	}
}
