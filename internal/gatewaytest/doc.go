// Package gatewaytest holds simulated gateways for harnesses, and the suite
// that they and the real ones pass. A simulated gateway keeps the client's
// rules by the same code as a real one (view.Held); only its stream and its
// disk are made up. It works inside a testing/synctest bubble: it waits on
// channels and timers only, and holds no lock while it waits. Read [Sim] first.
package gatewaytest

import (
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// Port is the port to gateways as a controller declares it.
type Port interface {
	Offer(t *view.Table)
	States() []service.GatewayState
	Changed() <-chan struct{}
}
