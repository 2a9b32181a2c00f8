package resolvertest

import (
	"errors"
	"path/filepath"

	"github.com/fairlead-platform/fairlead/internal/identity"
)

// identify makes an authority, and what it signs for the plane and for a caller.
func (p *Plane) identify() (err error) {
	a, err := identity.OpenAuthority(filepath.Join(p.dir, "authority"), identity.AuthorityOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	k, err := identity.OpenKeystore(filepath.Join(p.dir, "plane"))
	if err != nil {
		return err
	}
	if err := a.Issue(k, identity.ID{TrustDomain: a.TrustDomain(), Role: identity.Control, Name: "resolvertest"}); err != nil {
		return err
	}
	p.tls = k.RoleCredentials(identity.ServerOptions{})
	caller, err := identity.OpenKeystore(filepath.Join(p.dir, "caller"))
	if err != nil {
		return err
	}
	if err := a.Issue(caller, identity.ID{TrustDomain: a.TrustDomain(), Role: identity.Agent, Name: callerName}); err != nil {
		return err
	}
	p.caller = caller.ClientTLS(identity.Control)
	return nil
}

// callerName is what callers are known by here.
const callerName = "test"
