// Package credential is one identity as a folder of PEM files, for programs
// that are no role of ours: key.pem, cert.pem and bundle.pem. It reads them,
// notices when they were replaced, dials the plane by them, and renews them.
// It imports the standard library only, because package resolver lives in
// other people's programs; who may have which identity is package identity's
// matter. Read [Folder] first, then [Files.Write].
package credential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Files of a folder.
const (
	FileKey    = "key.pem"    // PKCS #8, ECDSA P-256; never replaced by a renewal
	FileCert   = "cert.pem"   // the identity's certificate, and what lies between it and the authority
	FileBundle = "bundle.pem" // the authorities that the plane is known by
	// FileManaged says that somebody else renews the folder: a host, for its
	// instances.
	FileManaged = "managed"
)

// ErrNone says that a folder holds no identity yet.
var ErrNone = errors.New("no identity is there")

// Folder is an identity that is read from a folder, again whenever its files
// were replaced. It is safe for concurrent use.
type Folder struct {
	dir string
	now func() time.Time

	mu    sync.Mutex
	held  *held // nil where none could be read yet
	looks looks // at the files when they were last read
	err   error // why they could not be read then
}

// held is what was read, never changed afterwards.
type held struct {
	id     *url.URL
	key    *ecdsa.PrivateKey
	leaf   *x509.Certificate
	chain  []*x509.Certificate // leaf first
	bundle []*x509.Certificate
	cert   tls.Certificate
}

// looks are what tells replaced files from those that were read; nil is a
// missing one.
type looks [3]os.FileInfo

func lookAt(dir string) (l looks) {
	for i, name := range []string{FileKey, FileCert, FileBundle} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			l[i] = info
		}
	}
	return l
}

func (l looks) same(other looks) bool {
	for i, a := range l {
		b := other[i]
		if (a == nil) != (b == nil) || a != nil && (!os.SameFile(a, b) || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime())) {
			return false
		}
	}
	return true
}

// Open reads the folder. One that holds nothing yet gives [ErrNone], and a
// Folder that may be used all the same: it looks again at each use.
func Open(dir string) (*Folder, error) {
	f := &Folder{dir: dir, now: time.Now}
	return f, f.Reload()
}

// Reload reads the files again if they were replaced. What cannot be read
// leaves what was held in force.
func (f *Folder) Reload() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reloadLocked()
}

func (f *Folder) reloadLocked() error {
	now := lookAt(f.dir)
	if now.same(f.looks) && (f.held != nil || f.err != nil) {
		return f.err
	}
	h, err := read(f.dir)
	if f.looks, f.err = now, err; err == nil {
		f.held = h
	}
	return err
}

func read(dir string) (*held, error) {
	var parts [3][]byte
	for i, name := range []string{FileKey, FileCert, FileBundle} {
		content, err := readFile(filepath.Join(dir, name), name == FileKey)
		if err != nil {
			return nil, fmt.Errorf("cannot use the identity in %s: %w", dir, err)
		}
		parts[i] = content
	}
	h, err := parse(parts[0], parts[1], parts[2])
	if err != nil {
		return nil, fmt.Errorf("cannot use the identity in %s: %w: have it made anew by `fairlead identity caller NAME --out DIR --force --again`", dir, err)
	}
	return h, nil
}

// readFile reads a file; a private one must be its owner's alone.
func readFile(path string, private bool) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", ErrNone, filepath.Base(path))
	}
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); private && mode&0o077 != 0 {
		return nil, fmt.Errorf("others may read or change %s (mode %04o): run chmod 600 on it, or have the identity made anew if others may have read it", path, mode)
	}
	return os.ReadFile(path)
}

func parse(keyPEM, certPEM, bundlePEM []byte) (*held, error) {
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", FileKey, err)
	}
	chain, err := parseCerts(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", FileCert, err)
	}
	bundle, err := parseCerts(bundlePEM)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", FileBundle, err)
	}
	h := &held{key: key, leaf: chain[0], chain: chain, bundle: bundle}
	if pub, ok := h.leaf.PublicKey.(*ecdsa.PublicKey); !ok || !pub.Equal(&key.PublicKey) {
		return nil, fmt.Errorf("%s was made for another key than %s", FileCert, FileKey)
	}
	for _, c := range bundle {
		if !c.IsCA { // it would vouch for itself
			return nil, fmt.Errorf("%q in %s is no authority", c.Subject, FileBundle)
		}
	}
	// Time is no part of this: an expired identity is one still.
	if h.id, err = verify(chain, bundle, h.leaf.NotBefore); err != nil {
		return nil, err
	}
	h.cert = tls.Certificate{PrivateKey: key, Leaf: h.leaf}
	for _, c := range chain {
		h.cert.Certificate = append(h.cert.Certificate, c.Raw)
	}
	return h, nil
}

func parseKey(content []byte) (*ecdsa.PrivateKey, error) {
	block, rest := pem.Decode(content)
	if block == nil || block.Type != "PRIVATE KEY" || len(bytes.TrimSpace(rest)) != 0 {
		return nil, errors.New("it is not one PEM private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it holds a %T, not an ECDSA key", parsed)
	}
	return key, nil
}

func parseCerts(content []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for rest := bytes.TrimSpace(content); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("it holds something that is not a PEM certificate")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("it holds no certificate")
	}
	return certs, nil
}

// current is what is held, read again where the files were replaced.
func (f *Folder) current() (*held, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.reloadLocked()
	if f.held == nil {
		return nil, err
	}
	return f.held, nil
}

// Dir is the folder's path.
func (f *Folder) Dir() string { return f.dir }

// ID is the SPIFFE identity, e.g. spiffe://fairlead/caller/batch; empty where
// none could be read.
func (f *Folder) ID() string {
	h, err := f.current()
	if err != nil {
		return ""
	}
	return h.id.String()
}

// Name is the last part of the identity, and Role the one before it; both are
// empty where none could be read.
func (f *Folder) Name() string { return f.part(1) }

// Role of the identity: caller, service or agent.
func (f *Folder) Role() string { return f.part(0) }

func (f *Folder) part(i int) string {
	h, err := f.current()
	if err != nil {
		return ""
	}
	return parts(h.id)[i]
}

// parts are the role and the name of an identity that was verified.
func parts(id *url.URL) [2]string {
	role, name, _ := strings.Cut(strings.TrimPrefix(id.Path, "/"), "/")
	return [2]string{role, name}
}

// NotAfter is when the identity ends; zero where none could be read.
func (f *Folder) NotAfter() time.Time {
	h, err := f.current()
	if err != nil {
		return time.Time{}
	}
	return h.leaf.NotAfter
}

// Managed says that somebody else renews the folder.
func (f *Folder) Managed() bool {
	_, err := os.Stat(filepath.Join(f.dir, FileManaged))
	return err == nil
}

// Load reads the files of a folder, which fit together.
func Load(dir string) (Files, error) {
	var w Files
	for name, into := range map[string]*[]byte{FileKey: &w.Key, FileCert: &w.Cert, FileBundle: &w.Bundle} {
		content, err := readFile(filepath.Join(dir, name), name == FileKey)
		if err != nil {
			return Files{}, fmt.Errorf("cannot read the identity in %s: %w", dir, err)
		}
		*into = content
	}
	if _, err := parse(w.Key, w.Cert, w.Bundle); err != nil {
		return Files{}, fmt.Errorf("cannot read the identity in %s: %w", dir, err)
	}
	return w, nil
}
