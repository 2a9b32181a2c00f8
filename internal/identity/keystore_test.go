package identity

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestARoleThatDiedBetweenKeyAndCertificateJoinsAgainByTheSameToken(t *testing.T) {
	a := newAuthority(t, time.Now)
	token, rec := mint(t, Host, "")
	m := newTokenMap(rec)
	dir := t.TempDir()
	var csrs [][]byte
	for range 2 { // the first life ends after the token was used
		k := must[*Keystore](t)(OpenKeystore(dir))
		if k.Have() {
			t.Fatal("it has an identity already")
		}
		csrs = append(csrs, must[[]byte](t)(k.NewCSR()))
	}
	var cert []byte
	for _, csr := range csrs {
		id := must[ID](t)(redeem(t, m, JoinRequest{Token: token, Role: Host, Name: "h", CSR: csr}))
		cert = must[[]byte](t)(a.Sign(csr, id))
	}
	k := must[*Keystore](t)(OpenKeystore(dir, ForRole(Host)))
	if err := k.Install(cert, a.Bundle()); err != nil {
		t.Fatal(err)
	}
	again := must[*Keystore](t)(OpenKeystore(dir))
	if id, err := again.ID(); err != nil || id.String() != "spiffe://fairlead/host/h" || !again.Have() {
		t.Errorf("%v, %v", id, err)
	}
	if got := must[string](t)(again.Fingerprint()); got != a.Fingerprint() {
		t.Errorf("fingerprint %s, the authority's is %s", got, a.Fingerprint())
	}
	if got := must[[]byte](t)(again.Bundle()); string(got) != string(a.Bundle()) {
		t.Error("the bundle changed")
	}
	checkPrivate(t, dir)
}

func TestRenewalIsDueAtOneThirdOfTheLifetime(t *testing.T) {
	k := newKeystore(t, time.Now)
	if !k.NotAfter().IsZero() || !k.RenewAt().IsZero() {
		t.Error("times without an identity")
	}
	k = newRole(t, newAuthority(t, time.Now), Host, "h", time.Now)
	if d := time.Until(k.RenewAt()); d > DefaultLifetime/3 || d < DefaultLifetime/3-time.Hour {
		t.Errorf("due in %v", d)
	}
}

func TestWhatDoesNotFitIsNotInstalledAndChangesNothing(t *testing.T) {
	a, other := newAuthority(t, time.Now), newAuthority(t, time.Now)
	k := newRole(t, a, Host, "h", time.Now)
	before := k.current
	sign := func(a *Authority, k *Keystore, role Role, name string) []byte {
		return must[[]byte](t)(a.Sign(must[[]byte](t)(k.NewCSR()), ID{DefaultTrustDomain, role, name}))
	}
	good := sign(a, k, Host, "h")
	for name, c := range map[string]struct{ cert, bundle []byte }{
		"another key's":      {sign(a, newKeystore(t, time.Now), Host, "h"), a.Bundle()},
		"another name's":     {sign(a, k, Host, "i"), a.Bundle()},
		"another role's":     {sign(a, k, Gateway, "h"), a.Bundle()},
		"foreign bundle":     {good, other.Bundle()},
		"foreign cert":       {sign(other, k, Host, "h"), a.Bundle()},
		"no cert":            {nil, a.Bundle()},
		"no bundle":          {good, nil},
		"a bundle of leaves": {good, good},
		"noise":              {append(good[:len(good):len(good)], "x"...), a.Bundle()},
	} {
		if err := k.Install(c.cert, c.bundle); err == nil {
			t.Errorf("%s: installed", name)
		}
	}
	if k.current != before || must[*Keystore](t)(OpenKeystore(k.dir)).current.leaf.SerialNumber.Cmp(before.leaf.SerialNumber) != 0 {
		t.Error("a refused install changed something")
	}
	wrong := must[*Keystore](t)(OpenKeystore(t.TempDir(), ForRole(Host)))
	if err := a.Issue(wrong, ID{DefaultTrustDomain, Gateway, "g"}); !errors.Is(err, ErrWrongRole) {
		t.Errorf("a host took a gateway's identity: %v", err)
	}
	if err := newKeystore(t, time.Now).Install(good, a.Bundle()); err == nil {
		t.Error("installed without a key")
	}
}

func TestAnAuthorityThatWasLostIsReplacedByJoiningAgain(t *testing.T) {
	k := newRole(t, newAuthority(t, time.Now), Host, "h", time.Now)
	next := newAuthority(t, time.Now)
	if err := next.Issue(k, must[ID](t)(k.ID())); err != nil {
		t.Fatal(err)
	}
	if got := must[string](t)(k.Fingerprint()); got != next.Fingerprint() {
		t.Error("the old authority stands")
	}
}

// damages are ways in which a keystore is no longer one.
func damages(t *testing.T, a *Authority) map[string]func(dir string) error {
	t.Helper()
	write := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	return map[string]func(dir string) error{
		"empty key":         write(fileKey, ""),
		"noise for key":     write(fileKey, "noise"),
		"empty identity":    write(fileIdentity, ""),
		"noise":             write(fileIdentity, "noise"),
		"no authority":      func(dir string) error { return truncateAfterFirst(filepath.Join(dir, fileIdentity)) },
		"another's key":     write(fileKey, string(anotherKey(t))),
		"key gone":          func(dir string) error { return os.Remove(filepath.Join(dir, fileKey)) },
		"half of the file":  func(dir string) error { return os.Truncate(filepath.Join(dir, fileIdentity), 300) },
		"authority's alone": write(fileIdentity, string(a.Bundle())),
	}
}

func TestADamagedKeystoreSaysWhatToDo(t *testing.T) {
	a := newAuthority(t, time.Now)
	for name, damage := range damages(t, a) {
		k := newRole(t, a, Host, "h", time.Now)
		if err := damage(k.dir); err != nil {
			t.Fatal(err)
		}
		_, err := OpenKeystore(k.dir)
		if err == nil || !strings.Contains(err.Error(), "join again with a new token") {
			t.Errorf("%s: %v", name, err)
		}
	}
	k := newRole(t, a, Host, "h", time.Now)
	if err := os.Chmod(filepath.Join(k.dir, fileKey), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeystore(k.dir); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("used a key that others may read: %v", err)
	}
}

func TestARoleThatIsGivenItsIdentityAnewPutsADamagedOneAside(t *testing.T) {
	a := newAuthority(t, time.Now)
	for name, damage := range damages(t, a) {
		dir := newRole(t, a, Host, "h", time.Now).dir
		if err := damage(dir); err != nil {
			t.Fatal(err)
		}
		var told error
		k, err := OpenKeystore(dir, PutAside(func(err error) { told = err }))
		if err != nil || told == nil || !strings.Contains(told.Error(), "put aside as *.damaged") || k.Have() {
			t.Errorf("%s: %v, told %v", name, err, told)
			continue
		}
		if err := a.Issue(k, ID{TrustDomain: a.TrustDomain(), Role: Host, Name: "h"}); err != nil {
			t.Errorf("%s: it is given no identity: %v", name, err)
		}
		if again, err := OpenKeystore(dir); err != nil || !again.Have() {
			t.Errorf("%s: its new identity is not kept: %v", name, err)
		}
		if aside, err := filepath.Glob(filepath.Join(dir, "*"+damagedExt)); err != nil || len(aside) == 0 {
			t.Errorf("%s: there is nothing to look at: %v, %v", name, aside, err)
		}
	}
}

func anotherKey(t *testing.T) []byte {
	t.Helper()
	_, encoded, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func truncateAfterFirst(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const end = "-----END CERTIFICATE-----\n"
	first, _, _ := strings.Cut(string(content), end)
	return os.WriteFile(path, []byte(first+end), 0o600)
}

func TestAnInterruptedWriteLeavesTheOldIdentity(t *testing.T) {
	k := newRole(t, newAuthority(t, time.Now), Host, "h", time.Now)
	// What a crash before the rename leaves beside it.
	if err := os.WriteFile(filepath.Join(k.dir, "."+fileIdentity+"-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := must[*Keystore](t)(OpenKeystore(k.dir))
	if !again.current.leaf.Equal(k.current.leaf) {
		t.Error("another identity")
	}
}
