// Package control is the control role: it leads a region or stands by, keeps
// the membership of hosts and gateways, and runs one worker per service that
// brings the world to what the desired documents say. It reaches the world
// only through the store, Hosts and Gateways ports, so that a harness can wrap
// them all. Read [Hosts] and [Gateways] first.
package control

import (
	"context"
	"io"
	"time"

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
}

// Gateways is the port to everything that routes.
type Gateways interface {
	// Offer makes t the table that is sent to every gateway that follows, now
	// and when it connects. It does not wait. The table's epoch is the leader's.
	Offer(t *view.Table)
	// States returns every gateway that has followed since the leader started,
	// connected or not, ordered by name.
	States() []GatewayState
	// Changed is closed at the next change of States.
	Changed() <-chan struct{}
}

// GatewayState is one gateway as the leader sees it now.
type GatewayState struct {
	Name      string
	Session   string
	Poll      string // the address that hosts dial
	Public    string // the address that requests come to
	Connected bool
	// Silent is how long nothing was heard, by the leader's monotonic clock.
	Silent time.Duration
	// Serves and Keeps as last acknowledged on this connection or an earlier one.
	Serves view.Version
	Keeps  view.Version
	// ServesDigest is the digest of what is served.
	ServesDigest string
	// Sent is the newest version that was sent to it.
	Sent view.Version
	// Epoch is the highest that it said it has kept.
	Epoch view.Epoch
	// Refused entries by service → reason, and why the table cannot be kept.
	Refused   map[string]string
	KeepError string
}

// Admission is asked by the gateway and host streams before anything is sent.
// The leader enters a gateway in the store here, before its first table.
type Admission interface {
	// AdmitGateway returns the leader's epoch, or an error that says why this
	// control is not to be followed (not leading, retired name).
	AdmitGateway(ctx context.Context, g GatewayState) (view.Epoch, error)
	// AdmitHost does the same for a host. kept is the highest epoch that the host has on disk.
	AdmitHost(ctx context.Context, h service.Host, kept view.Epoch) (view.Epoch, error)
	// GatewayGoodbye ends a membership.
	GatewayGoodbye(ctx context.Context, name string) error
}

// Logs is the way to instances' output; it commands nothing.
type Logs interface {
	// StreamLogs sends the last tail lines per instance and then, if follow,
	// what comes, until ctx ends. An empty instance means all of the service.
	StreamLogs(ctx context.Context, q LogQuery, send func([]LogLine) error) error
}

// LogQuery names whose output is wanted.
type LogQuery struct {
	Service, Instance string
	Tail              int // lines per instance; zero means 100
	Follow            bool
}

// LogLine is one line of output.
type LogLine struct {
	Instance, Revision string
	Text               string
}

// Artifacts gives the bytes of an artifact to hosts.
type Artifacts interface {
	OpenArtifact(ctx context.Context, digest string) (io.ReadCloser, error)
}
