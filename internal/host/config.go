package host

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// Config of one host.
type Config struct {
	// Name of the host, its identity's. Required.
	Name string
	// Zone it stands in; empty means "default".
	Zone string
	// Dir is the host's own folder, made when missing and locked while it runs. Required.
	Dir string
	// UserDir holds the folders and artifacts of instances that run as a named
	// user, who cannot reach into Dir; used by root only. Empty means
	// /var/tmp/fairlead-MARKER, by the folder's own random identity.
	UserDir string

	// Control addresses, tried in order; none means that the host runs what it
	// was assigned and hears no command.
	Control []string
	// DialControl options, credentials among them.
	DialControl []grpc.DialOption
	// DialGateway options, credentials among them, by the gateway's name; nil
	// means DialControl's. It is asked at each dial.
	DialGateway func(gateway string) []grpc.DialOption
	// Identities of the services that run here.
	Identities Issuing
	// Plane are the addresses that instances hold views from; none are not told.
	Plane []string
	// Library that is told to the leader, for people; may be empty.
	Library string

	// Advertise is the address that gateways reach instances at; zero means 127.0.0.1.
	Advertise netip.Addr
	// PortFirst and PortLast bound the ports given to instances; zero means 20000 and 31999.
	PortFirst, PortLast int
	// PortDir is the registry of ports, one per machine; empty means
	// /tmp/fairlead-ports, which every installation and user shares.
	PortDir string

	// Path that commands are looked up in and instances are given; empty means the process's own PATH.
	Path string
	// LogMax is the size in bytes at which an instance's output is rotated;
	// zero means 8 MiB. One older file of at most that size is kept.
	LogMax int64
	// KeepInstances leaves instances running when Run ends, to be adopted later.
	KeepInstances bool
	// Leave is how long at most Run waits at its end until what runs is served
	// by other hosts; zero means that it does not wait.
	Leave time.Duration
	// Metrics registry; nil registers nowhere.
	Metrics *prometheus.Registry
	// Timing of its rules; zero fields mean the defaults.
	Timing Timing
	// Logger; nil means none.
	Logger *slog.Logger
	// Now is the wall clock that ports' rest is told by and identities are minted from; nil means time.Now.
	Now func() time.Time
}

// Timing holds the durations that the host's rules name.
type Timing struct {
	BackoffFirst time.Duration // before the second process of a slot; zero means 100 ms, doubling
	BackoffMost  time.Duration // zero means 30 s
	BackoffReset time.Duration // live for this long begins the back-off anew; zero means 10 s
	Withdraw     time.Duration // wait for gateways to acknowledge a withdrawal; zero means 15 s
	Kill         time.Duration // from SIGTERM to SIGKILL; zero means 10 s
	PortRest     time.Duration // before a port is given away again; zero means 10 min
	Look         time.Duration // between looks at a live instance; zero means 1 s
	Redial       time.Duration // most between two dials; zero means 1 s
	DeafFor      time.Duration // one that was live and no longer listens is replaced after it; zero means 30 s
	Identities   time.Duration // between looks whether an identity is missing or due; zero means 5 s
	KeepArtifact time.Duration // an unused artifact is kept; zero means 10 min
}

func (t Timing) withDefaults() Timing {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.BackoffFirst, 100 * time.Millisecond},
		{&t.BackoffMost, 30 * time.Second},
		{&t.BackoffReset, 10 * time.Second},
		{&t.Withdraw, 15 * time.Second},
		{&t.Kill, 10 * time.Second},
		{&t.PortRest, 10 * time.Minute},
		{&t.Look, time.Second},
		{&t.Redial, time.Second},
		{&t.DeafFor, 30 * time.Second},
		{&t.Identities, 5 * time.Second},
		{&t.KeepArtifact, 10 * time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return t
}

func (c Config) withDefaults() (Config, error) {
	if !safeName.MatchString(c.Name) {
		return c, fault.New(fault.Invalid, "", "cannot make host %q: the name is not letters, digits, dots, dashes and underscores", c.Name)
	}
	if c.Dir == "" {
		return c, fault.New(fault.Invalid, "", "cannot make host %q: no folder", c.Name)
	}
	var err error
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, fmt.Errorf("cannot make host %q: %w", c.Name, err)
	}
	setDefault(&c.Zone, "default")
	setDefault(&c.Advertise, netip.MustParseAddr("127.0.0.1"))
	setDefault(&c.PortFirst, 20000)
	setDefault(&c.PortLast, 31999)
	setDefault(&c.PortDir, "/tmp/fairlead-ports")
	setDefault(&c.Path, os.Getenv("PATH"))
	setDefault(&c.Path, "/usr/local/bin:/usr/bin:/bin")
	setDefault(&c.LogMax, 8<<20)
	c.Timing = c.Timing.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.DialGateway == nil {
		c.DialGateway = func(string) []grpc.DialOption { return c.DialControl }
	}
	if c.PortFirst < 1 || c.PortLast > 65535 || c.PortFirst > c.PortLast {
		return c, fault.New(fault.Invalid, "", "cannot make host %q: ports %d to %d are no range", c.Name, c.PortFirst, c.PortLast)
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// sleep waits for d or for ctx to end, and says which: true means d passed.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
