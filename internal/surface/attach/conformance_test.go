package attach_test

import (
	"testing"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
)

func TestRealHostsKeepThePromisesOfThePort(t *testing.T) {
	hosttest.Run(t, func(t *testing.T) hosttest.World {
		p := newPlane(t, nil)
		p.start(t, "alpha")
		p.start(t, "beta")
		return hosttest.World{
			Hosts: p.Server, Names: []string{"alpha", "beta"}, Epoch: epoch,
			Template: hosttest.TemplateOf,
			Crash:    func(h string) { p.crash(t, h) },
			Connect:  func(h string) { p.start(t, h) },
		}
	})
}
