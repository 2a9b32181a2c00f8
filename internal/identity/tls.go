package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// ServerOptions of [Keystore.ServerTLS]. The zero value is good.
type ServerOptions struct {
	// Refused is the refusal list: asked for every handshake, resumed ones
	// included. Nil refuses nobody.
	Refused func(id ID, serial string) bool
	// Revoked are identities whose open connections end; they may shake hands,
	// and a [Guard] tells them why they get no further. Nil is nobody.
	Revoked *Refusals
	// NextProtos in order of preference; h2 and http/1.1 when empty.
	NextProtos []string
}

// ClientTLS dials a peer that must have one of the expected roles, known by its SPIFFE
// identity and not by its host name. It shows the newest certificate. The
// peer's refusal of ours arrives with the first read, not with the handshake.
func (k *Keystore) ClientTLS(expect ...Role) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       k.now,
		// The standard check is by host name; VerifyConnection is ours.
		InsecureSkipVerify: true,
		ClientSessionCache: &k.sessions,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return k.presentable()
		},
		VerifyConnection: func(cs tls.ConnectionState) error {
			m, err := k.material()
			if err != nil {
				return err
			}
			v := verifier{trustDomain: m.id.TrustDomain, roots: m.bundle, now: k.now()}
			return v.verifyServer(cs, expect...)
		},
	}
}

// presentable is the newest certificate, expired or not (it may still renew
// itself). One from the future is not shown: the peer would refuse it without
// being able to say why.
func (k *Keystore) presentable() (*tls.Certificate, error) {
	m, err := k.material()
	if err != nil {
		return nil, err
	}
	if now := k.now(); now.Before(m.leaf.NotBefore) {
		return nil, clockError("the certificate of "+m.id.String()+" (this role's own)", m.leaf, now)
	}
	return &m.cert, nil
}

// verifyServer is the client's half: a server has no use for an expired one.
func (v verifier) verifyServer(cs tls.ConnectionState, expect ...Role) error {
	peer, err := v.verify(cs.PeerCertificates)
	if err != nil {
		return err
	}
	if !slices.Contains(expect, peer.ID.Role) {
		return fmt.Errorf("%w: dialled a %s and reached %s", ErrWrongRole, oneOf(expect), peer.ID)
	}
	if peer.Expired {
		return clockError("the certificate of "+peer.ID.String(), cs.PeerCertificates[0], v.now)
	}
	return nil
}

// oneOf names roles as a person would.
func oneOf(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, " or a ")
}

// ServerTLS asks for a client certificate and lets through: a true identity,
// an expired one (marked so, see [Peer]), and nobody. It lets nobody do
// anything: that is [May]'s. A renewed or reissued certificate is used from
// the next handshake on.
func (k *Keystore) ServerTLS(opt ServerOptions) *tls.Config {
	protos := opt.NextProtos
	if len(protos) == 0 {
		protos = []string{"h2", "http/1.1"}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		Time:       k.now,
		NextProtos: protos,
		// Verified below: the standard check refuses what is expired.
		ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			m, err := k.material()
			if err != nil {
				return nil, err
			}
			return &m.cert, nil
		},
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return nil
			}
			return k.verifyClient(cs, opt.Refused)
		},
	}
}

func (k *Keystore) verifyClient(cs tls.ConnectionState, refused func(ID, string) bool) error {
	m, err := k.material()
	if err != nil {
		return err
	}
	v := verifier{trustDomain: m.id.TrustDomain, roots: m.bundle, now: k.now()}
	peer, err := v.verify(cs.PeerCertificates)
	if err != nil {
		return err
	}
	if refused != nil && refused(peer.ID, peer.Serial) {
		return fmt.Errorf("%w: %s, serial %s", ErrRefused, peer.ID, peer.Serial)
	}
	return nil
}

// bootstrapTLS dials control without a certificate of one's own, and takes it
// for true when its chain ends in the authority whose fingerprint the token
// carries.
func bootstrapTLS(tok Token, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			for _, c := range cs.PeerCertificates {
				if !c.IsCA || tok.Authority == "" || !strings.HasPrefix(fingerprint(c), tok.Authority) {
					continue
				}
				v := verifier{now: now()}
				v.roots = append(v.roots, c)
				return v.verifyServer(cs, Control)
			}
			return fmt.Errorf("the server's certificate is %w than the one that the token names: the address is wrong, or the token is of another installation", ErrForeign)
		},
	}
}

// sessions is a client's cache of TLS sessions that can forget them all.
type sessions struct {
	mu    sync.Mutex
	cache tls.ClientSessionCache // nil until used
}

func (s *sessions) lru() tls.ClientSessionCache {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache == nil {
		s.cache = tls.NewLRUClientSessionCache(64)
	}
	return s.cache
}

func (s *sessions) Get(key string) (*tls.ClientSessionState, bool) { return s.lru().Get(key) }

func (s *sessions) Put(key string, cs *tls.ClientSessionState) { s.lru().Put(key, cs) }

func (s *sessions) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache = nil
}

var errNotShaken = errors.New("connection has not been shaken by this package")
