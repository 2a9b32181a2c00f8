package identity

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnExpiredIdentityMayRenewItselfAndThenDoItsWork(t *testing.T) {
	p := startPlane(t, nil)
	host := newRole(t, p.authority, Host, "h", time.Now)
	p.serverNow.add(45 * 24 * time.Hour)
	conn := dialGRPC(t, p.addr, ClientCredentials(host, Control))
	const work = "fairlead.v1.HostControlService/Attach"
	if _, err := callGRPC(t, conn, work); err == nil {
		t.Error("an expired identity did work")
	}
	// The expired are not served among the roles.
	if got, err := callGRPC(t, conn, procRenew); err != nil || !strings.HasPrefix(got, "connect ") {
		t.Errorf("an expired identity could not renew, or as a role: %q, %v", got, err)
	}
	p.serverNow.add(-45 * 24 * time.Hour)
	if err := p.authority.Issue(host, must[ID](t)(host.ID())); err != nil {
		t.Fatal(err)
	}
	// The open connection shows the old certificate, a new one the new.
	again := dialGRPC(t, p.addr, ClientCredentials(host, Control))
	if _, err := callGRPC(t, again, work); err != nil {
		t.Error(err)
	}
}

func TestAPeerOfAForeignAuthorityIsRefusedByBothSides(t *testing.T) {
	p := startPlane(t, nil)
	other := newAuthority(t, time.Now)
	stranger := newRole(t, other, Host, "h", time.Now)
	if err := shakeOnce(p.addr, stranger.ClientTLS(Control)); !errors.Is(err, ErrForeign) {
		t.Errorf("the client took a foreign control for its own: %v", err)
	}
	careless := stranger.ClientTLS(Control)
	careless.VerifyConnection = nil
	if err := shakeOnce(p.addr, careless); err == nil {
		t.Error("control let a foreign host in")
	}
	p.logs.await(t, "the certificate of spiffe://fairlead/host/h is signed by another authority")
}

func TestAForeignAuthorityOfTheSameNamesCannotPassByItsOwnRoot(t *testing.T) {
	p := startPlane(t, nil)
	stranger := newRole(t, newAuthority(t, time.Now), Control, "a", time.Now)
	// Its chain carries its own root, which must count for nothing.
	if len(stranger.current.cert.Certificate) != 2 {
		t.Fatal("the chain carries no root")
	}
	v := verifier{trustDomain: DefaultTrustDomain, roots: p.control.current.bundle, now: time.Now()}
	_, err := v.verify(append(stranger.current.bundle[:0:0], stranger.current.leaf, stranger.current.bundle[0]))
	if !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
}

func TestAPeerOfAnotherTrustDomainIsForeign(t *testing.T) {
	a := newAuthority(t, time.Now)
	k := newRole(t, a, Host, "h", time.Now)
	v := verifier{trustDomain: "elsewhere", roots: k.current.bundle, now: time.Now()}
	if _, err := v.verify(append(k.current.bundle[:0:0], k.current.leaf)); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	if _, err := a.Sign(must[[]byte](t)(k.NewCSR()), ID{"elsewhere", Host, "h"}); err == nil {
		t.Error("the authority signed for a foreign trust domain")
	}
}

func TestAJoiningRoleTrustsOnlyTheAuthorityOfItsToken(t *testing.T) {
	p := startPlane(t, nil)
	if err := shakeOnce(p.addr, bootstrapTLS(newToken(t, p.authority), time.Now)); err != nil {
		t.Error(err)
	}
	if err := shakeOnce(p.addr, bootstrapTLS(newToken(t, newAuthority(t, time.Now)), time.Now)); !errors.Is(err, ErrForeign) {
		t.Errorf("token of another installation: %v", err)
	}
	if err := shakeOnce(p.addr, bootstrapTLS(Token{}, time.Now)); !errors.Is(err, ErrForeign) {
		t.Errorf("empty token: %v", err)
	}
	gateway := newRole(t, p.authority, Gateway, "g", time.Now)
	addr := serveTLS(t, gateway.ServerTLS(ServerOptions{}))
	if err := shakeOnce(addr, bootstrapTLS(newToken(t, p.authority), time.Now)); !errors.Is(err, ErrWrongRole) {
		t.Errorf("a gateway passed for control: %v", err)
	}
}

// serveTLS shakes hands with whoever comes, and says one byte.
func serveTLS(t *testing.T, cfg *tls.Config) string {
	t.Helper()
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	roles, others := Split(ln, cfg)
	ended := make(chan struct{}, 2)
	for _, half := range []net.Listener{roles, others} {
		go func() {
			defer func() { ended <- struct{}{} }()
			for {
				conn, err := half.Accept()
				if err != nil {
					return
				}
				if err := answerOnce(conn); err != nil {
					t.Log("answering:", err)
				}
			}
		}()
	}
	t.Cleanup(func() {
		if err := errors.Join(roles.Close(), others.Close()); err != nil {
			t.Error(err)
		}
		<-ended
		<-ended
	})
	return ln.Addr().String()
}

func TestAWrongClockIsNamedWithItsOffset(t *testing.T) {
	p := startPlane(t, nil)
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		offset time.Duration
		want   string
	}{
		"ahead":          {31*day + time.Hour, "this machine's clock is 31 days ahead of the certificate's issue time"},
		"behind":         {-5 * day, "this machine's clock is 5 days behind the certificate's issue time"},
		"behind by less": {-3*time.Hour - time.Minute, "this machine's clock is 3 hours behind the certificate's issue time"},
	} {
		wrong := newClock()
		wrong.add(c.offset)
		host := newRole(t, p.authority, Host, "h", time.Now)
		host.now = wrong.now
		for way, cfg := range map[string]*tls.Config{"joined": host.ClientTLS(Control), "joining": bootstrapTLS(newToken(t, p.authority), wrong.now)} {
			err := shakeOnce(p.addr, cfg)
			var clock *ClockError
			if !errors.As(err, &clock) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v", name, way, err)
			}
		}
		fresh := newKeystore(t, wrong.now)
		err := p.authority.Issue(fresh, ID{DefaultTrustDomain, Host, "h"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, installing: %v", name, err)
		}
	}
}

func TestAServerNamesTheClockOfACertificateFromTheFuture(t *testing.T) {
	p := startPlane(t, nil)
	p.serverNow.add(-10 * 24 * time.Hour)
	host := newRole(t, p.authority, Host, "h", time.Now)
	if err := shakeOnce(p.addr, host.ClientTLS(Control)); err == nil {
		t.Error("let in")
	}
	p.logs.await(t, "clock is 10 days behind the certificate's issue time")
}

func TestAnIdentityOnTheRefusalListIsOutAtOnce(t *testing.T) {
	var refuse atomic.Value
	refuse.Store("")
	p := startPlane(t, func(p *plane) {
		p.refused = func(_ ID, serial string) bool { return serial == refuse.Load() }
	})
	host := newRole(t, p.authority, Host, "h", time.Now)
	cfg := host.ClientTLS(Control)
	cfg.NextProtos = []string{"http/1.1"}
	open := dialGRPC(t, p.addr, ClientCredentials(host, Control))
	if _, err := callGRPC(t, open, procRenew); err != nil {
		t.Fatal(err)
	}
	if err := shakeOnce(p.addr, cfg); err != nil {
		t.Fatal(err)
	}
	refuse.Store(host.current.leaf.SerialNumber.Text(16))
	if _, err := callGRPC(t, open, procRenew); err == nil || !strings.Contains(err.Error(), ErrRefused.Error()) {
		t.Errorf("on an open connection: %v", err)
	}
	if err := shakeOnce(p.addr, cfg); err == nil { // resumes the session above
		t.Error("on a new connection: let in")
	}
	if err := p.authority.Issue(host, must[ID](t)(host.ID())); err != nil {
		t.Fatal(err)
	}
	if err := shakeOnce(p.addr, cfg); err != nil {
		t.Errorf("with another certificate: %v", err)
	}
}

func TestARenewedCertificateIsShownFromTheNextConnectionOn(t *testing.T) {
	a := newAuthority(t, time.Now)
	server := newRole(t, a, Control, "a", time.Now)
	host := newRole(t, a, Host, "h", time.Now)
	cfg := host.ClientTLS(Control)
	seen := make(chan tls.ConnectionState, 1)
	shaken := server.ServerTLS(ServerOptions{})
	verify := shaken.VerifyConnection
	shaken.VerifyConnection = func(cs tls.ConnectionState) error {
		seen <- cs
		return verify(cs)
	}
	addr := serveTLS(t, shaken)
	shake := func(resumed bool) {
		t.Helper()
		if err := shakeOnce(addr, cfg); err != nil {
			t.Fatal(err)
		}
		cs := <-seen
		if cs.DidResume != resumed || !cs.PeerCertificates[0].Equal(host.current.leaf) {
			t.Errorf("resumed %v; shown serial %v, newest %v", cs.DidResume, cs.PeerCertificates[0].SerialNumber, host.current.leaf.SerialNumber)
		}
	}
	shake(false)
	shake(true)
	for _, k := range []*Keystore{host, server} {
		if err := a.Issue(k, must[ID](t)(k.ID())); err != nil {
			t.Fatal(err)
		}
	}
	shake(false)
	conn := must[*tls.Conn](t)(tls.Dial("tcp", addr, httpOnly(host)))
	if got := conn.ConnectionState().PeerCertificates[0]; !got.Equal(server.current.leaf) {
		t.Errorf("the server shows serial %v, newest %v", got.SerialNumber, server.current.leaf.SerialNumber)
	}
	<-seen
	if err := conn.Close(); err != nil {
		t.Log("closing:", err)
	}
}

func httpOnly(k *Keystore) *tls.Config {
	cfg := k.ClientTLS(Control)
	cfg.ClientSessionCache = nil
	return cfg
}

func TestARoleThatHasNotJoinedNeitherDialsNorServes(t *testing.T) {
	p := startPlane(t, nil)
	empty := newKeystore(t, time.Now)
	if err := shakeOnce(p.addr, empty.ClientTLS(Control)); !errors.Is(err, ErrNotJoined) {
		t.Error(err)
	}
	if err := shakeOnce(serveTLS(t, empty.ServerTLS(ServerOptions{})), bootstrapTLS(newToken(t, p.authority), time.Now)); err == nil {
		t.Error("served without an identity")
	}
}

func TestOnlyTLS13IsSpoken(t *testing.T) {
	p := startPlane(t, nil)
	cfg := newRole(t, p.authority, Host, "h", time.Now).ClientTLS(Control)
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if err := shakeOnce(p.addr, cfg); err == nil {
		t.Error("TLS 1.2 was spoken")
	}
}
