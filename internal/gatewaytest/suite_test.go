package gatewaytest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simWorld lets the suite run on a Sim.
type simWorld struct{ *gatewaytest.Sim }

func (w simWorld) Control(cfg gatewaytest.PortConfig) gatewaytest.Control { return w.Attach(cfg) }
func (w simWorld) Gateway(name string) gatewaytest.Subject                { return w.Add(name) }

func TestSimulatedGatewaysKeepThePromises(t *testing.T) {
	gatewaytest.Run(t, func(*testing.T) gatewaytest.World { return simWorld{gatewaytest.NewSim()} })
}

func TestRealGatewaysKeepThePromises(t *testing.T) {
	gatewaytest.Run(t, func(t *testing.T) gatewaytest.World { return newRealWorld(t) })
}
