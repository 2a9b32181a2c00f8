//go:build crashpoints

package daemon

import (
	"os"
	"syscall"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
)

// wired wraps the controller's ports, so that its calls fail, come late or end
// the process as the file that FAIRLEAD_CRASHPOINTS names asks for.
func wired(c control.Config) control.Config {
	path := os.Getenv("FAIRLEAD_CRASHPOINTS")
	if path == "" {
		return c
	}
	life := crashpoints.NewRules(path).Life(func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {}
	})
	c.Store, c.Hosts, c.Gateways = life.Store(c.Store), life.Hosts(c.Hosts), life.Gateways(c.Gateways)
	return c
}
