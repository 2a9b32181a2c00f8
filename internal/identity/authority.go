package identity

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultLifetime is how long an identity lasts from its issue.
	DefaultLifetime = 30 * 24 * time.Hour
	// authorityLifetime is how long the authority itself lasts.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// skew is how far back a certificate's validity begins, so that a machine
	// whose clock is a little behind can use it at once.
	skew = 5 * time.Minute

	fileCAKey  = "ca.key"
	fileCACert = "ca.crt"
	fileLock   = "lock"
	fileMaking = "making.lock" // held while the authority is made, where the folder is shared
)

// ErrLocked says that another process has the authority's folder open.
var ErrLocked = errors.New("in use by another process")

// AuthorityOptions of [OpenAuthority]. The zero value is good.
type AuthorityOptions struct {
	TrustDomain string           // DefaultTrustDomain when empty
	Lifetime    time.Duration    // of what it signs; DefaultLifetime when zero
	Now         func() time.Time // time.Now when nil
	// Shared lets other processes that say so too open the folder meanwhile:
	// what is in it never changes once it is made.
	Shared bool
}

// Authority signs identities. Its key lives in a folder of its own, never in
// the store. It is safe for concurrent use.
type Authority struct {
	opt  AuthorityOptions
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	lock *os.File
}

// HasAuthority says whether an authority was made in dir.
func HasAuthority(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, fileCAKey))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// OpenAuthority opens the authority in dir, and makes it on first use. The
// folder is locked until Close: a second process gets [ErrLocked], unless both
// share it.
func OpenAuthority(dir string, opt AuthorityOptions) (*Authority, error) {
	if opt.TrustDomain == "" {
		opt.TrustDomain = DefaultTrustDomain
	}
	if opt.Lifetime <= 0 {
		opt.Lifetime = DefaultLifetime
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	a := &Authority{opt: opt}
	if err := a.open(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open authority in %s: %w", dir, err), a.Close())
	}
	return a, nil
}

func (a *Authority) open(dir string) error {
	if err := privateFolder(dir); err != nil {
		return err
	}
	how := unix.LOCK_EX
	if a.opt.Shared {
		how = unix.LOCK_SH
	}
	lock, err := lockFile(filepath.Join(dir, fileLock), how|unix.LOCK_NB)
	if err != nil {
		return err
	}
	a.lock = lock
	if a.opt.Shared {
		// Of several that find an empty folder, one makes the authority.
		making, err := lockFile(filepath.Join(dir, fileMaking), unix.LOCK_EX)
		if err != nil {
			return err
		}
		defer making.Close()
	}
	if err := a.loadKey(filepath.Join(dir, fileCAKey), filepath.Join(dir, fileCACert)); err != nil {
		return err
	}
	return a.loadCert(filepath.Join(dir, fileCACert))
}

// loadKey makes the key where neither key nor certificate is there. A missing
// certificate alone is what a crash at first use leaves, and is made again.
func (a *Authority) loadKey(keyPath, certPath string) error {
	content, err := readPrivate(keyPath)
	if err != nil {
		return err
	}
	if content == nil {
		if _, err := os.Stat(certPath); err == nil {
			return fmt.Errorf("%s is missing beside its certificate: restore it from a backup, or move the folder away and let every role join again by a new token", keyPath)
		}
		key, encoded, err := newKey()
		if err != nil {
			return err
		}
		a.key = key
		return writePrivate(keyPath, encoded)
	}
	if a.key, err = parseKey(content); err != nil {
		return fmt.Errorf("%s is damaged (%w): restore it from a backup, or move the folder away and let every role join again by a new token", keyPath, err)
	}
	return nil
}

func (a *Authority) loadCert(path string) error {
	content, err := readPrivate(path)
	if err != nil {
		return err
	}
	if content == nil {
		if a.cert, err = a.selfSign(); err != nil {
			return err
		}
		return writePrivate(path, encodeCerts(a.cert))
	}
	certs, err := parseCerts(content)
	if err == nil && (!certs[0].IsCA || !samePublicKey(certs[0], a.key)) {
		err = errors.New("it does not belong to the key beside it")
	}
	if err != nil {
		return fmt.Errorf("%s is damaged (%w): restore it from a backup; it may also be removed, and is then made again from the key", path, err)
	}
	a.cert = certs[0]
	return a.checkTrustDomain()
}

func (a *Authority) checkTrustDomain() error {
	if len(a.cert.URIs) == 1 && a.cert.URIs[0].Host == a.opt.TrustDomain {
		return nil
	}
	return fmt.Errorf("it is the authority of %v, not of trust domain %q", a.cert.URIs, a.opt.TrustDomain)
}

func (a *Authority) selfSign() (*x509.Certificate, error) {
	id := ID{TrustDomain: a.opt.TrustDomain, Role: Control, Name: "authority"}
	if err := id.check(); err != nil {
		return nil, err
	}
	now := a.opt.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "fairlead authority of " + a.opt.TrustDomain},
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: a.opt.TrustDomain}},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	return a.create(template, template, &a.key.PublicKey)
}

func (a *Authority) create(template, parent *x509.Certificate, pub *ecdsa.PublicKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("cannot choose a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot sign certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// Close gives the folder's lock back.
func (a *Authority) Close() error {
	if a.lock == nil {
		return nil
	}
	lock := a.lock
	a.lock = nil
	return lock.Close()
}

// TrustDomain of everything that it signs.
func (a *Authority) TrustDomain() string { return a.opt.TrustDomain }

// Fingerprint is the SHA-256 of the authority's public key, in hex.
func (a *Authority) Fingerprint() string { return fingerprint(a.cert) }

// Bundle is the authority's certificate, in PEM.
func (a *Authority) Bundle() []byte { return encodeCerts(a.cert) }

// NotAfter is when the authority itself ends.
func (a *Authority) NotAfter() time.Time { return a.cert.NotAfter }

// lockFile takes the lock, as flock's how says; it ends with the returned
// file, or with the process.
func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), how)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("the folder is %w: stop that one, or use another folder", ErrLocked)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
