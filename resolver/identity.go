package resolver

import (
	"fmt"

	"google.golang.org/grpc"
)

// identify finds how the plane is dialled, and by which name.
func identify(cfg *Config) (name string, dial []grpc.DialOption, err error) {
	if cfg.ownDial() {
		return cfg.Name, cfg.dial(), nil
	}
	return "", nil, fmt.Errorf("%w: folders of identities are not read yet: set Config.TLS and Config.Name", ErrConfig)
}
