package daemon

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// port is an address that a flag names.
type port struct{ flag, address string }

// free says which of the addresses cannot be listened on, and leaves nothing
// behind: a process that cannot have its ports changes nothing.
func free(ports ...port) error {
	for _, p := range ports {
		l, err := net.Listen("tcp", p.address)
		if err != nil {
			return cannotListen(p.flag, p.address, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("cannot try %s: %w", p.address, err)
		}
	}
	return nil
}

func cannotListen(flag, address string, err error) error {
	hint := fmt.Sprintf("name another by %s; a port of 0 picks one", flag)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fault.New(fault.Invalid, "stop what listens there, or "+hint, "cannot listen on %s (%s): it is in use", address, flag)
	}
	return fault.New(fault.Invalid, hint, "cannot listen on %s (%s): %w", address, flag, err)
}
