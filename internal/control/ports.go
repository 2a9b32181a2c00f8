// Package control is the control role: it leads a region or stands by, keeps
// the membership of hosts and gateways, and runs one worker per service that
// brings the world to what the desired documents say. It reaches the world
// only through the store, Hosts and Gateways ports, so that a harness can wrap
// them all. Read [Hosts] and [Gateways] first.
package control

import (
	"context"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// Hosts is the port to everything that runs instances. An error from a command
// does not say that it did not happen. Commands are idempotent: the same
// assignment, preparation or stop given twice is done once. Every command
// carries the leader's epoch, and a host refuses less than the highest it kept.
type Hosts interface {
	// States returns every host that has attached since the leader started,
	// connected or not, ordered by name, with its instances as last reported.
	States() []service.HostState
	// Changed is closed at the next change of States.
	Changed() <-chan struct{}
	// Prepare fetches the artifact and checks that the command can be run:
	// found, executable, the user and the folder exist.
	Prepare(ctx context.Context, e view.Epoch, host, revision string, t service.Template) error
	// Assign asks for a slot to be kept running; nil means that the host has
	// it on disk. A higher Round replaces the process.
	Assign(ctx context.Context, e view.Epoch, host string, a service.Assignment) error
	// Stop ends a slot; nil means that the host has it on disk. The instance's
	// end is seen in States. Stopping an unknown slot is done already.
	Stop(ctx context.Context, e view.Epoch, host string, s service.Stop) error
	// Release lets a host end that leaves. One that does not is left as it is.
	Release(ctx context.Context, e view.Epoch, host string, r service.Release) error
}

// Gateways is the port to everything that routes.
type Gateways interface {
	// Offer makes t the table that is sent to every gateway that follows, now
	// and when it connects. It does not wait. The table's epoch is the leader's.
	// Offered again, it is sent whole to who serves other content under its number.
	Offer(t *view.Table)
	// States returns every gateway that has followed since the leader started,
	// connected or not, ordered by name.
	States() []service.GatewayState
	// Changed is closed at the next change of States.
	Changed() <-chan struct{}
}

// Verdicts is the port to what is believed of instances.
type Verdicts interface {
	Of(service, instance string) Verdict
	// Changed is closed at the next change of a verdict.
	Changed() <-chan struct{}
}

// Verdict says whether an instance may be routed to by its service's contract.
type Verdict struct {
	Ready bool
	// Before says that it was ready once: what it became since is for callers
	// to go round, and no reason to wait with a change.
	Before bool
	// Unseen says that nobody sees how it does. It stays ready if it was.
	Unseen bool
	Why    string // it is not ready, or not known to be
}

// trusting is the port where nobody judges: who is live is ready.
type trusting struct{}

func (trusting) Of(string, string) Verdict { return Verdict{Ready: true, Before: true} }

func (trusting) Changed() <-chan struct{} { return nil }
