package resolver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Where a Config that does not say it finds the plane, the caller's identity,
// its zone and its revision. Under one of our hosts all of them are set.
const (
	EnvPlane    = "FAIRLEAD_PLANE"    // addresses, comma separated
	EnvIdentity = "FAIRLEAD_IDENTITY" // a folder
	EnvZone     = "FAIRLEAD_ZONE"
	EnvRevision = "FAIRLEAD_REVISION"
)

// MostServices that one resolver may subscribe to.
const MostServices = 2000

// Config says which services' instances are picked, and where what is known of
// them is kept. StateDir and Services suffice where the environment says the rest.
type Config struct {
	// StateDir keeps the views between runs, in a folder of its own in it. It is
	// made where it is missing. Required.
	StateDir string
	// Services whose instances are picked, at most MostServices; Subscribe adds more.
	Services []string
	// Plane are the addresses to subscribe at, host:port, tried in turn; empty
	// means those in EnvPlane.
	Plane []string
	// Identity is the folder with this caller's identity, as `fairlead identity
	// caller` writes it; empty means the one in EnvIdentity. A renewed identity is
	// used from the next connection on. Not read where TLS or Dial is given.
	Identity string
	// Zone of this caller, whose endpoints are preferred; empty means EnvZone,
	// and without that none is preferred.
	Zone string
	// Revision of this caller's program; empty means EnvRevision. With Zone it goes
	// with what is reported: what fails for all callers of one revision or one zone,
	// and for nobody else, is charged to them and to no instance.
	Revision string
	// Fallback has addresses by service, used as long as no view of it was ever
	// held. They are no instances of the plane: nothing is reported of them.
	Fallback map[string][]string
	// FirstView is how long Open waits for the views of which nothing is on
	// disk and that have no fallback; zero means 1 s, and less not at all. That none
	// came is no error of Open's.
	FirstView time.Duration
	// Ejection and Retry are good at their zero values.
	Ejection Ejection
	Retry    RetryBudget

	// Name that the plane knows this caller by; needed with TLS or Dial, and read
	// from the identity otherwise.
	Name string
	// TLS dials the plane otherwise than by Identity. It must check the peer.
	TLS *tls.Config
	// Dial has further options of connections to the plane. With neither TLS nor an
	// Identity it has their credentials too.
	Dial []grpc.DialOption
	// Observer is told of what happens, one event at a time and in order. It runs
	// beside everything else: events that it does not take soon enough are dropped
	// and counted, and a panic of it is caught. It may be nil.
	Observer func(Event)
	// Log may be nil.
	Log *slog.Logger
}

// fill takes what is not said from the environment.
func (c *Config) fill() {
	if len(c.Plane) == 0 {
		for _, a := range strings.Split(os.Getenv(EnvPlane), ",") {
			if a = strings.TrimSpace(a); a != "" {
				c.Plane = append(c.Plane, a)
			}
		}
	}
	if c.Identity == "" {
		c.Identity = os.Getenv(EnvIdentity)
	}
	if c.Zone == "" {
		c.Zone = os.Getenv(EnvZone)
	}
	if c.Revision == "" {
		c.Revision = os.Getenv(EnvRevision)
	}
	if c.FirstView == 0 {
		c.FirstView = time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Ejection.fill()
	c.Retry.fill()
}

// check says what is wrong, and what to do.
func (c *Config) check() error {
	switch {
	case c.StateDir == "":
		return fmt.Errorf("%w: StateDir is empty: name a folder that outlives the process", ErrConfig)
	case len(c.Plane) == 0:
		return fmt.Errorf("%w: no address of the plane: set Config.Plane or %s to host:port", ErrConfig, EnvPlane)
	case len(c.Services) > MostServices:
		return fmt.Errorf("%w: %d services are named, and %d may be", ErrConfig, len(c.Services), MostServices)
	case slices.Contains(c.Services, ""):
		return fmt.Errorf("%w: a service has no name", ErrConfig)
	case c.Name == "" && c.ownDial():
		return fmt.Errorf("%w: TLS or Dial is given without Name: say what the plane knows this caller by", ErrConfig)
	case c.Identity == "" && !c.ownDial():
		return fmt.Errorf("%w: no identity: set Config.Identity or %s to the folder that `fairlead identity caller NAME --out FOLDER` made", ErrConfig, EnvIdentity)
	}
	for service, addresses := range c.Fallback {
		if service == "" || slices.Contains(addresses, "") {
			return fmt.Errorf("%w: Fallback has an empty service or address", ErrConfig)
		}
	}
	if info, err := os.Stat(c.StateDir); err == nil && !info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: StateDir %s cannot be a folder: %w", ErrConfig, c.StateDir, errors.Join(err, fs.ErrInvalid))
	}
	return errors.Join(c.Ejection.check(), c.Retry.check())
}

// ownDial says that connections are made by the user's own means.
func (c *Config) ownDial() bool { return c.TLS != nil || c.Identity == "" && len(c.Dial) > 0 }

// dial is how the plane is dialled by the user's own means.
func (c *Config) dial() []grpc.DialOption {
	if c.TLS == nil {
		return c.Dial
	}
	return append([]grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(c.TLS))}, c.Dial...)
}
