package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"google.golang.org/grpc/credentials"
)

// ClientCredentials are a grpc-go client's, for a peer of the expected role.
func ClientCredentials(k *Keystore, expect ...Role) credentials.TransportCredentials {
	return credentials.NewTLS(k.ClientTLS(expect...))
}

// ServerCredentials are a grpc-go server's on the first half of [Split]: they
// take connections that are already shaken and whose peer is a role, and
// refuse all others. A connection is closed when its certificate ends, so
// that no stream outlives the identity that opened it, and when that is revoked.
func ServerCredentials(revoked *Refusals) credentials.TransportCredentials {
	return serverCreds{revoked: revoked}
}

// RoleCredentials are a grpc-go server's on a listener of its own, such as a
// gateway's for hosts: they shake hands themselves, and let in roles only.
func (k *Keystore) RoleCredentials(opt ServerOptions) credentials.TransportCredentials {
	opt.NextProtos = []string{"h2"}
	return serverCreds{shake: k.ServerTLS(opt), revoked: opt.Revoked}
}

type serverCreds struct {
	shake   *tls.Config // nil: connections come shaken
	revoked *Refusals   // nil: nobody
}

func (c serverCreds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	now := time.Now
	conn, ok := raw.(*tls.Conn)
	if c.shake != nil {
		conn, ok = tls.Server(raw, c.shake), true
		now = c.shake.Time
		// grpc-go bounds the time of a handshake by the connection's deadline.
		if err := conn.Handshake(); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("cannot shake hands: %w", err), raw.Close())
		}
	}
	if !ok || !conn.ConnectionState().HandshakeComplete {
		return nil, nil, errors.Join(errNotShaken, raw.Close())
	}
	cs := conn.ConnectionState()
	p, err := rolePeer(cs, now())
	if err != nil {
		return nil, nil, errors.Join(err, raw.Close())
	}
	info := credentials.TLSInfo{
		State:          cs,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		SPIFFEID:       &url.URL{Scheme: "spiffe", Host: p.ID.TrustDomain, Path: "/" + string(p.ID.Role) + "/" + p.ID.Name},
	}
	return closeAt(conn, p.NotAfter.Sub(now()), c.revoked.hold(p.ID, conn)), info, nil
}

// rolePeer is the peer where it is a role that may speak gRPC to another, and
// an error that says why not where it is anything else.
func rolePeer(cs tls.ConnectionState, now time.Time) (Peer, error) {
	p, err := PeerAt(cs, now)
	switch {
	case err != nil:
		return Peer{}, err
	case p.Anonymous(), p.Expired, p.ID.Role == Operator:
		return Peer{}, fmt.Errorf("%w: %s is no role with a valid identity", ErrWrongRole, p)
	case cs.NegotiatedProtocol != "h2":
		return Peer{}, fmt.Errorf("%s speaks %q, not HTTP/2", p, cs.NegotiatedProtocol)
	default:
		return p, nil
	}
}

func (c serverCreds) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a server's")
}

func (c serverCreds) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (c serverCreds) Clone() credentials.TransportCredentials { return c }

func (c serverCreds) OverrideServerName(string) error { return nil }

// timedConn closes itself at the end of its peer's identity.
type timedConn struct {
	net.Conn
	end  *time.Timer
	drop func() // it from those that a refusal closes
}

func closeAt(conn net.Conn, in time.Duration, drop func()) net.Conn {
	// A failing Close has nobody to be told to.
	return &timedConn{conn, time.AfterFunc(in, func() { _ = conn.Close() }), drop}
}

func (c *timedConn) Close() error {
	c.end.Stop()
	c.drop()
	return c.Conn.Close()
}
