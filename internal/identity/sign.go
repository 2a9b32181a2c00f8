package identity

import (
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"
)

// SignOption adds to what a certificate says.
type SignOption func(*signing)

type signing struct {
	hosts  []string
	heldBy string
}

// HeldBy names the host that holds a service's identity: the instances of a
// service on one host have one, and are told by it from those on another.
func HeldBy(host string) SignOption {
	return func(s *signing) { s.heldBy = host }
}

// WithHosts adds DNS names and IP addresses at which the server can be
// reached, for clients that check those, such as curl and browsers. Only
// control's certificate carries any; localhost, 127.0.0.1 and ::1 it always has.
func WithHosts(hosts ...string) SignOption {
	return func(s *signing) { s.hosts = append(s.hosts, hosts...) }
}

// Sign gives id a certificate for the key that the request proves to hold.
// Nothing that the request says about identity is looked at.
func (a *Authority) Sign(csrPEM []byte, id ID, opts ...SignOption) ([]byte, error) {
	if err := id.check(); err != nil {
		return nil, fmt.Errorf("cannot sign: %w", err)
	}
	if id.TrustDomain != a.opt.TrustDomain {
		return nil, fmt.Errorf("cannot sign %s: this is the authority of trust domain %q", id, a.opt.TrustDomain)
	}
	csr, err := parseCSR(csrPEM)
	if err != nil {
		return nil, fmt.Errorf("cannot sign %s: %w", id, err)
	}
	template, err := a.template(id, opts)
	if err != nil {
		return nil, fmt.Errorf("cannot sign %s: %w", id, err)
	}
	// parseCSR lets no other kind of key through.
	cert, err := a.create(template, a.cert, csr.PublicKey.(*ecdsa.PublicKey))
	if err != nil {
		return nil, err
	}
	return encodeCerts(cert), nil
}

func (a *Authority) template(id ID, opts []SignOption) (*x509.Certificate, error) {
	now := a.opt.Now()
	if now.Before(a.cert.NotBefore) || !now.Before(a.cert.NotAfter) {
		return nil, clockError("the authority's certificate", a.cert, now)
	}
	t := &x509.Certificate{
		Subject:               pkix.Name{CommonName: string(id.Role) + " " + id.Name},
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: id.TrustDomain, Path: "/" + string(id.Role) + "/" + id.Name}},
		NotBefore:             later(now.Add(-skew), a.cert.NotBefore),
		NotAfter:              earlier(now.Add(a.opt.Lifetime), a.cert.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if len(t.Subject.CommonName) > 64 {
		t.Subject.CommonName = t.Subject.CommonName[:64] // the bound of X.520
	}
	var s signing
	for _, o := range opts {
		o(&s)
	}
	if s.heldBy != "" {
		t.Subject.OrganizationalUnit = []string{s.heldBy}
	}
	return t, addHosts(t, id.Role, s.hosts)
}

func addHosts(t *x509.Certificate, role Role, hosts []string) error {
	if role != Control {
		if len(hosts) > 0 {
			return fmt.Errorf("only control's certificate carries host names, not %s's", role)
		}
		return nil
	}
	for _, h := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		ip := net.ParseIP(h)
		switch {
		case ip != nil && !slices.ContainsFunc(t.IPAddresses, ip.Equal):
			t.IPAddresses = append(t.IPAddresses, ip)
		case ip == nil && h != "" && !slices.Contains(t.DNSNames, h):
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	return nil
}

// Issue signs for a keystore of the authority's own process: control itself,
// and the roles of `up` where they need no token.
func (a *Authority) Issue(k *Keystore, id ID, opts ...SignOption) error {
	csr, err := k.NewCSR()
	if err != nil {
		return err
	}
	cert, err := a.Sign(csr, id, opts...)
	if err != nil {
		return err
	}
	return k.Install(cert, a.Bundle())
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
