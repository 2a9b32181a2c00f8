package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// Errors of a handshake that a caller may act on.
var (
	// ErrForeign: the certificate was signed by another authority.
	ErrForeign = errors.New("signed by another authority")
	// ErrWrongRole: a true identity, but not the one that was dialled.
	ErrWrongRole = errors.New("wrong identity")
	// ErrRefused: the identity is on the refusal list.
	ErrRefused = errors.New("identity is refused")
)

// ClockError says that a certificate does not stand at this machine's time,
// and how far the two are apart.
type ClockError struct {
	What   string        // e.g. "the certificate of spiffe://fairlead/host/a"
	Offset time.Duration // this machine's time minus the certificate's issue time
	Passed time.Duration // since its end; negative when it is not yet valid
}

func (e *ClockError) Error() string {
	if e.Passed < 0 {
		return fmt.Sprintf("%s is not yet valid: this machine's clock is %s behind the certificate's issue time; set the clock", e.What, span(-e.Offset))
	}
	return fmt.Sprintf("%s has expired %s ago: this machine's clock is %s ahead of the certificate's issue time; set the clock if it is wrong, renew or join again if it is right", e.What, span(e.Passed), span(e.Offset))
}

func clockError(what string, cert *x509.Certificate, now time.Time) error {
	// The validity begins a little before the issue.
	e := &ClockError{What: what, Offset: now.Sub(cert.NotBefore.Add(skew)), Passed: now.Sub(cert.NotAfter)}
	if now.Before(cert.NotBefore) {
		e.Passed = now.Sub(cert.NotBefore)
	}
	return e
}

// span names a duration as a person would: rounded, in its largest unit of
// which there are at least two.
func span(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if d >= 2*u.unit {
			return fmt.Sprintf("%d %s", int64((d+u.unit/2)/u.unit), u.name)
		}
	}
	return fmt.Sprintf("%d seconds", int64(d/time.Second))
}

// verifier checks one peer's chain.
type verifier struct {
	trustDomain string // the peer's must be this one; any when empty
	roots       []*x509.Certificate
	now         time.Time
}

// verify says who holds the chain. An expired certificate that is otherwise
// good is told by Peer.Expired, not by an error: the caller decides.
func (v verifier) verify(chain []*x509.Certificate) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errors.New("peer shows no certificate")
	}
	leaf := chain[0]
	peer, err := peerOfCert(leaf, v.now)
	if err != nil {
		return Peer{}, err
	}
	if v.trustDomain != "" && peer.ID.TrustDomain != v.trustDomain {
		return Peer{}, fmt.Errorf("the certificate of %s is %w: it is of trust domain %q, not %q", peer.ID, ErrForeign, peer.ID.TrustDomain, v.trustDomain)
	}
	if err := v.verifyChain(peer.ID, chain); err != nil {
		return Peer{}, err
	}
	if v.now.Before(leaf.NotBefore) {
		return Peer{}, clockError("the certificate of "+peer.ID.String(), leaf, v.now)
	}
	return peer, nil
}

// verifyChain looks at the chain at an instant within the leaf's validity, so
// that a wrong clock or an expired leaf is not taken for a foreign authority.
func (v verifier) verifyChain(id ID, chain []*x509.Certificate) error {
	td, err := id.trustDomain()
	if err != nil {
		return err
	}
	at := v.now
	if at.Before(chain[0].NotBefore) {
		at = chain[0].NotBefore
	}
	if at.After(chain[0].NotAfter) {
		at = chain[0].NotAfter
	}
	bundle := x509bundle.FromX509Authorities(td, v.roots)
	if _, _, err := x509svid.Verify(chain, bundle, x509svid.WithTime(at)); err != nil {
		var unknown x509.UnknownAuthorityError
		if errors.As(err, &unknown) {
			return fmt.Errorf("the certificate of %s is %w", id, ErrForeign)
		}
		return fmt.Errorf("cannot verify the certificate of %s: %w", id, err)
	}
	return nil
}
