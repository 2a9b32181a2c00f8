package identity

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	fileKey      = "identity.key"
	fileIdentity = "identity.pem"
)

// ErrNotJoined says that the keystore holds no identity yet.
var ErrNotJoined = errors.New("this role has not joined yet: it has no identity")

// KeystoreOption changes how [OpenKeystore] works.
type KeystoreOption func(*Keystore)

// WithClock sets the clock; time.Now where it is not given.
func WithClock(now func() time.Time) KeystoreOption {
	return func(k *Keystore) { k.now = now }
}

// ForRole makes Install refuse an identity of any other role, such as one that
// a token of another role brought.
func ForRole(role Role) KeystoreOption {
	return func(k *Keystore) { k.role = role }
}

// PutAside has damaged files put aside, and told of, as if the role had not
// joined: for one that is given an identity anew without a person.
func PutAside(tell func(error)) KeystoreOption {
	return func(k *Keystore) { k.aside = tell }
}

// Keystore is what a joined role has on disk, in a folder of its own: its key
// (made once, kept through renewals), and in one file, replaced as a whole,
// its certificate followed by the authority's. It is safe for concurrent use
// within one process; the role's own lock keeps other processes out.
type Keystore struct {
	dir      string
	now      func() time.Time
	role     Role        // any when empty
	aside    func(error) // nil has damaged files refused
	sessions sessions

	mu      sync.Mutex
	key     *ecdsa.PrivateKey // nil until the first NewCSR
	current *material         // nil until Install
}

// material is one identity, never changed once it is published.
type material struct {
	id   ID
	cert tls.Certificate // chain: leaf, then the authorities
	leaf *x509.Certificate
	// bundle holds the authorities that peers are checked against.
	bundle []*x509.Certificate
}

// OpenKeystore opens the keystore in dir; an empty folder is one that has not
// joined. Damaged files give an error that says what to do.
func OpenKeystore(dir string, opts ...KeystoreOption) (*Keystore, error) {
	k := &Keystore{dir: dir, now: time.Now}
	for _, o := range opts {
		o(k)
	}
	err := k.load()
	if d := new(damagedFile); k.aside != nil && errors.As(err, d) {
		k.aside(fmt.Errorf("%s is damaged (%w): it and what goes with it were put aside as *%s", d.path, d.error, damagedExt))
		k.key, k.current = nil, nil
		err = errors.Join(putAside(filepath.Join(dir, fileKey)), putAside(filepath.Join(dir, fileIdentity)))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open keystore in %s: %w", dir, err)
	}
	return k, nil
}

func (k *Keystore) load() error {
	if err := privateFolder(k.dir); err != nil {
		return err
	}
	keyPath, idPath := filepath.Join(k.dir, fileKey), filepath.Join(k.dir, fileIdentity)
	content, err := readPrivate(keyPath)
	if err != nil {
		return err
	}
	if content != nil {
		if k.key, err = parseKey(content); err != nil {
			return damaged(keyPath, err)
		}
	}
	if content, err = readPrivate(idPath); err != nil || content == nil {
		return err
	}
	if k.key == nil {
		return damaged(idPath, fmt.Errorf("its key %s is missing", fileKey))
	}
	if k.current, err = newMaterial(content, k.key); err != nil {
		return damaged(idPath, err)
	}
	return nil
}

// damagedExt ends the names of files that were put aside.
const damagedExt = ".damaged"

type damagedFile struct {
	path string
	error
}

func damaged(path string, err error) error { return damagedFile{path, err} }

func (d damagedFile) Error() string {
	return fmt.Sprintf("%s is damaged (%v): restore it from a backup, or remove %s and %s and join again with a new token", d.path, d.error, fileKey, fileIdentity)
}

func (d damagedFile) Unwrap() error { return d.error }

// putAside renames a file, so that people can still look at it.
func putAside(path string) error { return ignoreMissing(os.Rename(path, path+damagedExt)) }

// newMaterial reads the identity file: leaf first, then the authorities.
func newMaterial(content []byte, key *ecdsa.PrivateKey) (*material, error) {
	certs, err := parseCerts(content)
	if err != nil {
		return nil, err
	}
	m := &material{leaf: certs[0], bundle: certs[1:]}
	if !samePublicKey(m.leaf, key) {
		return nil, errors.New("its certificate was made for another key")
	}
	for _, c := range m.bundle {
		// A leaf among the roots would vouch for itself.
		if !c.IsCA {
			return nil, fmt.Errorf("%q in its bundle is no authority", c.Subject)
		}
	}
	// Time is no part of this: an expired identity is still one.
	peer, err := verifier{roots: m.bundle, now: m.leaf.NotBefore}.verify(certs)
	if err != nil {
		return nil, err
	}
	m.id = peer.ID
	m.cert = tls.Certificate{PrivateKey: key, Leaf: m.leaf}
	for _, c := range certs {
		m.cert.Certificate = append(m.cert.Certificate, c.Raw)
	}
	return m, nil
}

// material is the newest identity, or ErrNotJoined.
func (k *Keystore) material() (*material, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return nil, ErrNotJoined
	}
	return k.current, nil
}

// Have says whether the role has joined: it has an identity, expired or not.
func (k *Keystore) Have() bool {
	_, err := k.material()
	return err == nil
}

// ID is the role's identity, or ErrNotJoined.
func (k *Keystore) ID() (ID, error) {
	m, err := k.material()
	if err != nil {
		return ID{}, err
	}
	return m.id, nil
}

// Bundle is the authorities that peers are checked against, in PEM.
func (k *Keystore) Bundle() ([]byte, error) {
	m, err := k.material()
	if err != nil {
		return nil, err
	}
	return encodeCerts(m.bundle...), nil
}

// Fingerprint is that of the first authority, as a join token names it.
func (k *Keystore) Fingerprint() (string, error) {
	m, err := k.material()
	if err != nil {
		return "", err
	}
	return fingerprint(m.bundle[0]), nil
}

// NewCSR makes the request for a certificate. The key is made once, and on
// disk before the request leaves: an answer that arrives after a crash, or a
// second request by the same token, still fits it.
func (k *Keystore) NewCSR() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key == nil {
		key, encoded, err := newKey()
		if err != nil {
			return nil, err
		}
		if err := writePrivate(filepath.Join(k.dir, fileKey), encoded); err != nil {
			return nil, err
		}
		k.key = key
	}
	return newCSR(k.key)
}

// Install keeps the certificate that was signed for this keystore's key, with
// the authorities. What does not fit, or does not stand at this machine's
// time, is refused and changes nothing.
func (k *Keystore) Install(certPEM, bundlePEM []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key == nil {
		return errors.New("cannot install certificate: this keystore has no key")
	}
	certs, err := parseCerts(certPEM)
	if err != nil {
		return fmt.Errorf("cannot install certificate: %w", err)
	}
	bundle, err := parseCerts(bundlePEM)
	if err != nil {
		return fmt.Errorf("cannot install bundle: %w", err)
	}
	content := encodeCerts(append(certs[:1:1], bundle...)...)
	m, err := newMaterial(content, k.key)
	if err != nil {
		return fmt.Errorf("cannot install certificate: %w", err)
	}
	if err := k.fitsLocked(m); err != nil {
		return fmt.Errorf("cannot install certificate: %w", err)
	}
	if err := writePrivate(filepath.Join(k.dir, fileIdentity), content); err != nil {
		return err
	}
	k.current = m
	// A resumed session would show the certificate that it began with.
	k.sessions.forget()
	return nil
}

func (k *Keystore) fitsLocked(m *material) error {
	if k.role != "" && m.id.Role != k.role {
		return fmt.Errorf("%w: it is of %s, and this is a %s: the token was for another role", ErrWrongRole, m.id, k.role)
	}
	if k.current != nil && k.current.id != m.id {
		return fmt.Errorf("%w: it is of %s, and this keystore is of %s: use another folder", ErrWrongRole, m.id, k.current.id)
	}
	return validNow(m, k.now())
}

func validNow(m *material, now time.Time) error {
	if now.Before(m.leaf.NotBefore) || now.After(m.leaf.NotAfter) {
		return clockError("the certificate of "+m.id.String(), m.leaf, now)
	}
	return nil
}

// NotAfter is when the identity ends; zero when there is none.
func (k *Keystore) NotAfter() time.Time {
	m, err := k.material()
	if err != nil {
		return time.Time{}
	}
	return m.leaf.NotAfter
}

// RenewAt is when renewal is due, at one third of the lifetime; zero when
// there is no identity.
func (k *Keystore) RenewAt() time.Time {
	m, err := k.material()
	if err != nil {
		return time.Time{}
	}
	return renewAt(m.leaf)
}

func renewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 3)
}
