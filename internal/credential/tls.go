package credential

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// TLS dials a part of the plane that has one of the roles (control and relay
// where none is named), known by its SPIFFE identity and not by its host name.
// It shows the newest certificate, expired or not: an expired one may still
// renew itself.
func (f *Folder) TLS(roles ...string) *tls.Config {
	if len(roles) == 0 {
		roles = []string{"control", "relay"}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// The standard check is by host name; VerifyConnection is ours.
		InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			h, err := f.current()
			if err != nil {
				return nil, err
			}
			return &h.cert, nil
		},
		VerifyConnection: func(cs tls.ConnectionState) error {
			h, err := f.current()
			if err != nil {
				return err
			}
			return h.verifyPlane(cs.PeerCertificates, roles, f.now())
		},
	}
}

func (h *held) verifyPlane(chain []*x509.Certificate, roles []string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the peer shows no certificate")
	}
	id, err := verify(chain, h.bundle, now)
	if err != nil {
		return err
	}
	if id.Host != h.id.Host {
		return fmt.Errorf("%s is of another trust domain than %s", id, h.id)
	}
	if role := parts(id)[0]; !slices.Contains(roles, role) {
		return fmt.Errorf("dialled a %s and reached %s", strings.Join(roles, " or a "), id)
	}
	if now.After(chain[0].NotAfter) {
		return fmt.Errorf("the certificate of %s ended at %s by its own account, and it is %s here: look at both clocks", id, chain[0].NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// verify says who holds the chain. It is looked at at an instant within the
// leaf's validity, so that a wrong clock is not taken for another authority.
func verify(chain, bundle []*x509.Certificate, now time.Time) (*url.URL, error) {
	leaf := chain[0]
	if len(leaf.URIs) != 1 || leaf.URIs[0].Scheme != "spiffe" || leaf.IsCA {
		return nil, fmt.Errorf("the certificate of %q is no SPIFFE identity", leaf.Subject)
	}
	id := leaf.URIs[0]
	if p := parts(id); id.Host == "" || p[0] == "" || p[1] == "" {
		return nil, fmt.Errorf("%s is not spiffe://<trust domain>/<role>/<name>", id)
	}
	if now.Before(leaf.NotBefore) {
		now = leaf.NotBefore
	}
	if now.After(leaf.NotAfter) {
		now = leaf.NotAfter
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range bundle {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return nil, fmt.Errorf("%s is not of an authority that is trusted here: %w", id, err)
	}
	return id, nil
}
