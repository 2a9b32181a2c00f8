package identity

import (
	"bufio"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const lockEnv = "IDENTITY_TEST_LOCK_FOLDER"

// takeLockAndWait is the second process of the test below.
func takeLockAndWait() bool {
	dir := os.Getenv(lockEnv)
	if dir == "" {
		return false
	}
	a, err := OpenAuthority(dir, AuthorityOptions{})
	fmt.Println("opened:", err)
	if err == nil {
		_, err = bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Println(err, a.Close())
	}
	return true
}

func TestASecondProcessOnTheAuthoritysFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "opened: <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := OpenAuthority(dir, AuthorityOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened beside another process: %v", err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
	a, err := OpenAuthority(dir, AuthorityOptions{Now: time.Now})
	if err != nil {
		t.Fatalf("not opened after the other process ended: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestProcessesThatShareAFolderHaveOneAuthority(t *testing.T) {
	dir := t.TempDir()
	shared := AuthorityOptions{Shared: true}
	opened := make(chan *Authority, 8)
	for range cap(opened) { // flock tells apart open files, not processes
		go func() {
			a, err := OpenAuthority(dir, shared)
			if err != nil {
				t.Error(err)
			}
			opened <- a
		}()
	}
	prints := map[string]bool{}
	for range cap(opened) {
		a := <-opened
		if a == nil {
			t.Fatal("one could not open it")
		}
		defer a.Close()
		prints[a.Fingerprint()] = true
	}
	if len(prints) != 1 {
		t.Errorf("there are %d authorities", len(prints))
	}
	if _, err := OpenAuthority(dir, AuthorityOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("opened alone beside who shares: %v", err)
	}
}

func openClose(t *testing.T, dir string, opt AuthorityOptions) (*Authority, error) {
	t.Helper()
	a, err := OpenAuthority(dir, opt)
	if err == nil {
		if cerr := a.Close(); cerr != nil {
			t.Error(cerr)
		}
	}
	return a, err
}

func TestAnAuthorityIsMadeOnceAndIsTheSameAfterwards(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "authority")
	first := must[*Authority](t)(openClose(t, dir, AuthorityOptions{}))
	second := must[*Authority](t)(openClose(t, dir, AuthorityOptions{}))
	if first.Fingerprint() != second.Fingerprint() || len(first.Fingerprint()) != 64 || string(first.Bundle()) != string(second.Bundle()) {
		t.Errorf("%s became %s", first.Fingerprint(), second.Fingerprint())
	}
	if years := time.Until(first.NotAfter()).Hours() / 24 / 365; years < 9.99 || years > 10.01 {
		t.Errorf("the authority lasts %.2f years", years)
	}
	if _, err := openClose(t, dir, AuthorityOptions{TrustDomain: "other"}); err == nil || !strings.Contains(err.Error(), `not of trust domain "other"`) {
		t.Errorf("opened for another trust domain: %v", err)
	}
}

func TestAnAuthoritysFilesAreItsOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "authority")
	must[*Authority](t)(openClose(t, dir, AuthorityOptions{}))
	checkPrivate(t, dir)
	if err := os.Chmod(filepath.Join(dir, fileCAKey), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := openClose(t, dir, AuthorityOptions{}); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("used a key that others may read: %v", err)
	}
}

func checkPrivate(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		want := os.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestACrashWhileTheAuthorityIsMadeLeavesOneThatOpens(t *testing.T) {
	dir := t.TempDir()
	first := must[*Authority](t)(openClose(t, dir, AuthorityOptions{}))
	if err := os.Remove(filepath.Join(dir, fileCACert)); err != nil { // the key alone was written
		t.Fatal(err)
	}
	second := must[*Authority](t)(openClose(t, dir, AuthorityOptions{}))
	if first.Fingerprint() != second.Fingerprint() {
		t.Error("the authority changed")
	}
}

func TestADamagedAuthoritySaysWhatToDo(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"empty key":  func(dir string) error { return os.WriteFile(filepath.Join(dir, fileCAKey), nil, 0o600) },
		"no key":     func(dir string) error { return os.Remove(filepath.Join(dir, fileCAKey)) },
		"cert is no": func(dir string) error { return os.WriteFile(filepath.Join(dir, fileCACert), []byte("x"), 0o600) },
		"other cert": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, fileCACert), newAuthority(t, time.Now).Bundle(), 0o600)
		},
	} {
		dir := t.TempDir()
		must[*Authority](t)(openClose(t, dir, AuthorityOptions{}))
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := openClose(t, dir, AuthorityOptions{}); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACertificateSaysWhatTheSignerDecidedOnly(t *testing.T) {
	a := newAuthority(t, time.Now)
	key, _, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	der := must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "king"}, DNSNames: []string{"king.example"},
		URIs: []*url.URL{{Scheme: "spiffe", Host: "fairlead", Path: "/control/king"}},
	}, key))
	csr := pem.EncodeToMemory(&pem.Block{Type: pemCSR, Bytes: der})
	id := ID{DefaultTrustDomain, Host, "h"}
	certs := must[[]*x509.Certificate](t)(parseCerts(must[[]byte](t)(a.Sign(csr, id))))
	leaf := certs[0]
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != id.String() || leaf.DNSNames != nil || leaf.IPAddresses != nil || leaf.Subject.CommonName != "host h" || leaf.IsCA {
		t.Errorf("%v %v %v %v", leaf.URIs, leaf.DNSNames, leaf.IPAddresses, leaf.Subject)
	}
	if d := time.Until(leaf.NotAfter); d > DefaultLifetime || d < DefaultLifetime-time.Minute {
		t.Errorf("it lasts %v", d)
	}
	der[len(der)-1] ^= 1 // the signature
	forged := pem.EncodeToMemory(&pem.Block{Type: pemCSR, Bytes: der})
	if _, err := a.Sign(forged, id); err == nil {
		t.Error("signed for one who does not hold the key")
	}
	for _, bad := range []ID{{DefaultTrustDomain, "king", "h"}, {DefaultTrustDomain, Host, ""}, {DefaultTrustDomain, Host, "a/b"}, {}} {
		if _, err := a.Sign(csr, bad); err == nil {
			t.Errorf("signed %+v", bad)
		}
	}
	if _, err := a.Sign(csr, id, WithHosts("example.com")); err == nil {
		t.Error("a host's certificate carries a host name")
	}
}

func TestAnIdentityEndsNoLaterThanItsAuthority(t *testing.T) {
	c := newClock()
	a := newAuthority(t, c.now)
	c.add(authorityLifetime - 24*time.Hour)
	k := newRole(t, a, Host, "h", c.now)
	if !k.NotAfter().Equal(a.NotAfter()) {
		t.Errorf("%v, %v", k.NotAfter(), a.NotAfter())
	}
	c.add(48 * time.Hour)
	var clock *ClockError
	if err := a.Issue(k, ID{DefaultTrustDomain, Host, "h"}); !errors.As(err, &clock) {
		t.Errorf("an ended authority signed: %v", err)
	}
}

func TestAnAuthorityWhoseClockWasSetBackALittleSignsWhatCanBeUsed(t *testing.T) {
	c := newClock()
	a := newAuthority(t, c.now)
	c.add(-2 * time.Minute)
	newRole(t, a, Host, "h", c.now)
	c.add(-time.Hour)
	var clock *ClockError
	if err := a.Issue(newKeystore(t, c.now), ID{DefaultTrustDomain, Host, "h"}); !errors.As(err, &clock) {
		t.Errorf("signed before its own beginning: %v", err)
	}
}
