package resolvertest

import (
	"errors"
	"path/filepath"

	"github.com/fairlead-platform/fairlead/internal/credential"
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
	return p.identifyCaller(a)
}

func (p *Plane) identifyCaller(a *identity.Authority) error {
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	csr, err := key.Request()
	if err != nil {
		return err
	}
	cert, err := a.Sign(csr, identity.ID{TrustDomain: a.TrustDomain(), Role: identity.Caller, Name: "test"})
	if err != nil {
		return err
	}
	return credential.Files{Key: key.PEM, Cert: cert, Bundle: a.Bundle()}.Write(p.Identity())
}
