package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// Peer is who is at the other end. The zero Peer is nobody: one who showed no
// certificate.
type Peer struct {
	ID       ID
	Expired  bool // true, but out of time: it may renew itself and nothing else
	NotAfter time.Time
	Serial   string // of its certificate, in hex
	Local    bool   // reached by a UNIX socket, known by the file's permission
	HeldBy   string // host whose instances of a service they are; empty for others
}

// Anonymous says that the peer showed no identity.
func (p Peer) Anonymous() bool { return p.ID.IsZero() }

func (p Peer) String() string {
	switch {
	case p.Anonymous():
		return "nobody (no certificate)"
	case p.Expired:
		return p.ID.String() + " (expired)"
	default:
		return p.ID.String()
	}
}

// LocalOperator is the peer of a UNIX socket: whoever may open the file is an
// operator. Name is shown in the record of what was done.
func LocalOperator(name string) Peer {
	return Peer{ID: ID{TrustDomain: DefaultTrustDomain, Role: Operator, Name: name}, Local: true}
}

// PeerOf says who is at the other end of a connection that was shaken with one
// of this package's configurations, which have verified it. Nobody, for one
// without a certificate, is the zero Peer and no error.
func PeerOf(cs tls.ConnectionState) (Peer, error) { return PeerAt(cs, time.Now()) }

// PeerAt is [PeerOf] at a given time: a connection can outlive its certificate.
func PeerAt(cs tls.ConnectionState, now time.Time) (Peer, error) {
	if len(cs.PeerCertificates) == 0 {
		return Peer{}, nil
	}
	return peerOfCert(cs.PeerCertificates[0], now)
}

func peerOfCert(leaf *x509.Certificate, now time.Time) (Peer, error) {
	if len(leaf.URIs) != 1 {
		return Peer{}, fmt.Errorf("certificate of %q names %d identities, not one", leaf.Subject, len(leaf.URIs))
	}
	id, err := ParseID(leaf.URIs[0].String())
	if err != nil {
		return Peer{}, err
	}
	heldBy := ""
	if len(leaf.Subject.OrganizationalUnit) == 1 {
		heldBy = leaf.Subject.OrganizationalUnit[0]
	}
	return Peer{
		ID:       id,
		HeldBy:   heldBy,
		Expired:  now.After(leaf.NotAfter),
		NotAfter: leaf.NotAfter,
		Serial:   leaf.SerialNumber.Text(16),
	}, nil
}

type peerKey struct{}

// ContextWithPeer is how a middleware hands the peer on.
func ContextWithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerFromContext is the peer that the middleware or interceptor let through.
// Without one it is nobody.
func PeerFromContext(ctx context.Context) Peer {
	p, ok := ctx.Value(peerKey{}).(Peer)
	if !ok {
		return Peer{}
	}
	return p
}
