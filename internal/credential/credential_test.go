package credential_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

func authority(t *testing.T, opt identity.AuthorityOptions) *identity.Authority {
	t.Helper()
	a, err := identity.OpenAuthority(filepath.Join(t.TempDir(), "authority"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func idOf(a *identity.Authority, role identity.Role, name string) identity.ID {
	return identity.ID{TrustDomain: a.TrustDomain(), Role: role, Name: name}
}

// issued makes files that fit together.
func issued(t *testing.T, a *identity.Authority, id identity.ID) credential.Files {
	t.Helper()
	key, err := credential.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.Request()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Sign(csr, id)
	if err != nil {
		t.Fatal(err)
	}
	return credential.Files{Key: key.PEM, Cert: cert, Bundle: a.Bundle()}
}

func written(t *testing.T, w credential.Files) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "identity")
	if err := w.Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func opened(t *testing.T, dir string) *credential.Folder {
	t.Helper()
	f, err := credential.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAFolderHoldsAnIdentityForItsOwnerAlone(t *testing.T) {
	a := authority(t, identity.AuthorityOptions{})
	dir := written(t, issued(t, a, idOf(a, identity.Caller, "batch")))
	for _, name := range []string{"key.pem", "cert.pem", "bundle.pem"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	f := opened(t, dir)
	if f.ID() != "spiffe://fairlead/caller/batch" || f.Role() != "caller" || f.Name() != "batch" || f.Managed() {
		t.Errorf("it is %s (%s, %s), managed %v", f.ID(), f.Role(), f.Name(), f.Managed())
	}
	if third := f.RenewAt().Sub(f.NotAfter().Add(-30 * 24 * time.Hour)); third < 9*24*time.Hour || third > 11*24*time.Hour {
		t.Errorf("it is due for renewal after %s of 30 days", third)
	}
	if err := os.Chmod(filepath.Join(dir, "key.pem"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := credential.Open(dir); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read was taken: %v", err)
	}
}

func TestWhatDoesNotFitTogetherIsRefusedAndChangesNothing(t *testing.T) {
	a, b := authority(t, identity.AuthorityOptions{}), authority(t, identity.AuthorityOptions{})
	good := issued(t, a, idOf(a, identity.Caller, "batch"))
	other := issued(t, a, idOf(a, identity.Caller, "batch"))
	dir := written(t, good)
	for what, bad := range map[string]credential.Files{
		"another key's certificate": {Key: good.Key, Cert: other.Cert, Bundle: good.Bundle},
		"another authority":         {Key: good.Key, Cert: good.Cert, Bundle: b.Bundle()},
		"a leaf for an authority":   {Key: good.Key, Cert: good.Cert, Bundle: good.Cert},
		"no key":                    {Cert: good.Cert, Bundle: good.Bundle},
		"an authority's own":        {Key: good.Key, Cert: a.Bundle(), Bundle: a.Bundle()},
	} {
		if err := bad.Write(dir); err == nil {
			t.Errorf("%s was written", what)
		}
	}
	if f := opened(t, dir); f.ID() != "spiffe://fairlead/caller/batch" {
		t.Errorf("it is %s now", f.ID())
	}
}

func TestAFolderThatIsFilledOrDamagedLaterIsNoticed(t *testing.T) {
	a := authority(t, identity.AuthorityOptions{})
	dir := filepath.Join(t.TempDir(), "later")
	f, err := credential.Open(dir)
	if !errors.Is(err, credential.ErrNone) || f.ID() != "" {
		t.Fatalf("an empty folder is %q: %v", f.ID(), err)
	}
	if err := issued(t, a, idOf(a, identity.Service, "web")).Write(dir); err != nil {
		t.Fatal(err)
	}
	if f.ID() != "spiffe://fairlead/service/web" {
		t.Fatalf("it is %q: %v", f.ID(), f.Reload())
	}
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err == nil || f.ID() != "spiffe://fairlead/service/web" {
		t.Errorf("a torn certificate gave %v, and it is %q", err, f.ID())
	}
}

func TestAnIdentityRenewsItselfAtOneThirdAndExpiredToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t, identity.AuthorityOptions{})
		id := idOf(a, identity.Caller, "batch")
		f := opened(t, written(t, issued(t, a, id)))
		began, renewed := time.Now(), make(chan time.Time, 1)
		var back atomic.Bool
		var failures atomic.Int64
		call := func(_ context.Context, csr []byte) (cert, bundle []byte, err error) {
			if !back.Load() {
				return nil, nil, errors.New("control is away")
			}
			cert, err = a.Sign(csr, id)
			renewed <- time.Now()
			return cert, a.Bundle(), err
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f.Run(ctx, call, func(error) { failures.Add(1) })
		}()
		time.Sleep(9 * 24 * time.Hour)
		synctest.Wait()
		if n := failures.Load(); n != 0 {
			t.Errorf("it asked %d times before a third of its life", n)
		}
		time.Sleep(40*24*time.Hour - time.Since(began)) // an outage that it does not outlive
		synctest.Wait()
		if failures.Load() == 0 || time.Now().Before(f.NotAfter()) {
			t.Errorf("%d failures, and it ends %s", failures.Load(), f.NotAfter())
		}
		back.Store(true)
		if at := <-renewed; at.Sub(began) > 40*24*time.Hour+10*time.Minute {
			t.Errorf("it was renewed only after %s", at.Sub(began))
		}
		synctest.Wait()
		if !f.NotAfter().After(time.Now().Add(29 * 24 * time.Hour)) {
			t.Errorf("it ends %s", f.NotAfter())
		}
		cancel()
		<-ended
	})
}

func TestAnotherIdentityIsNotTakenForARenewal(t *testing.T) {
	a := authority(t, identity.AuthorityOptions{})
	f := opened(t, written(t, issued(t, a, idOf(a, identity.Caller, "batch"))))
	err := f.Renew(t.Context(), func(_ context.Context, csr []byte) (cert, bundle []byte, err error) {
		cert, err = a.Sign(csr, idOf(a, identity.Caller, "other"))
		return cert, a.Bundle(), err
	})
	if err == nil || f.ID() != "spiffe://fairlead/caller/batch" {
		t.Errorf("renewal gave %v, and it is %s", err, f.ID())
	}
}

func TestTheManagedAreLeftToWhoWroteThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := authority(t, identity.AuthorityOptions{})
		w := issued(t, a, idOf(a, identity.Service, "web"))
		w.Managed = true
		f := opened(t, written(t, w))
		ctx, cancel := context.WithTimeout(t.Context(), 40*24*time.Hour)
		defer cancel()
		f.Run(ctx, func(context.Context, []byte) ([]byte, []byte, error) {
			t.Error("it asked to be renewed")
			return nil, nil, errors.New("no")
		}, nil)
	})
}

// TestOnlyThePlaneOfItsAuthorityIsDialled shakes hands for real, as a role of
// ours would be dialled.
func TestOnlyThePlaneOfItsAuthorityIsDialled(t *testing.T) {
	a, b := authority(t, identity.AuthorityOptions{}), authority(t, identity.AuthorityOptions{})
	f := opened(t, written(t, issued(t, a, idOf(a, identity.Caller, "batch"))))
	for _, c := range []struct {
		by    *identity.Authority
		role  identity.Role
		fails string
	}{
		{a, identity.Control, ""},
		{a, identity.Relay, ""},
		{a, identity.Gateway, "dialled a control or a relay and reached spiffe://fairlead/gateway/x"},
		{b, identity.Control, "not of an authority that is trusted here"},
	} {
		shown, err := shake(t, c.by, c.role, f)
		if c.fails == "" && (err != nil || shown != "spiffe://fairlead/caller/batch") {
			t.Errorf("%s: it showed %q, and %v", c.role, shown, err)
		}
		if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %v", c.role, err)
		}
	}
}

// shake dials a server of the role, and says whom it took the dialler for.
func shake(t *testing.T, a *identity.Authority, role identity.Role, f *credential.Folder) (shown string, err error) {
	t.Helper()
	keys, err := identity.OpenKeystore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Issue(keys, idOf(a, role, "x")); err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	defer client.Close()
	peers := make(chan string, 1)
	go func() {
		conn := tls.Server(server, keys.ServerTLS(identity.ServerOptions{}))
		defer conn.Close()
		if conn.Handshake() != nil {
			peers <- ""
			return
		}
		p, _ := identity.PeerOf(conn.ConnectionState())
		peers <- p.String()
	}()
	err = tls.Client(client, f.TLS()).Handshake()
	_ = client.Close()
	return <-peers, err
}
