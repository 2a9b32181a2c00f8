package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Key is one that was just made, before anybody signed for it.
type Key struct {
	key *ecdsa.PrivateKey
	PEM []byte
}

// NewKey makes a key.
func NewKey() (Key, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("cannot make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Key{}, fmt.Errorf("cannot encode a key: %w", err)
	}
	return Key{key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, nil
}

// Request is the certificate request of the key, in PEM. It names nobody: who
// signs decides the identity.
func (k Key) Request() ([]byte, error) { return request(k.key) }

func request(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// Files are the content of a folder, in PEM.
type Files struct {
	Key, Cert, Bundle []byte
	// Owner of the files, where it is not who writes them.
	Owner *Owner
	// Managed says that whoever writes the folder renews it too.
	Managed bool
}

// Owner is a user of this machine.
type Owner struct{ UID, GID int }

// Exists says whether the folder holds an identity, or a part of one.
func Exists(dir string) (bool, error) {
	for _, name := range []string{FileKey, FileCert, FileBundle} {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("cannot look for an identity: %w", err)
		}
	}
	return false, nil
}

// Write puts the files into the folder, which is made where it is missing. What
// does not fit together is refused and changes nothing. Each file is replaced
// whole, and is on disk before the next: the certificate comes last.
func (w Files) Write(dir string) error {
	if _, err := parse(w.Key, w.Cert, w.Bundle); err != nil {
		return fmt.Errorf("cannot write the identity to %s: %w", dir, err)
	}
	mode := fs.FileMode(0o700)
	if w.Owner != nil {
		mode = 0o711 // its files are the owner's, and nobody else's
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return fmt.Errorf("cannot write the identity: %w", err)
	}
	if w.Managed {
		if err := w.replace(filepath.Join(dir, FileManaged), []byte("by the host\n")); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{FileKey, w.Key}, {FileBundle, w.Bundle}, {FileCert, w.Cert}} {
		if err := w.replace(filepath.Join(dir, f.name), f.content); err != nil {
			return err
		}
	}
	return nil
}

// replace gives the path this content and the mode 0600, whole or not at all.
func (w Files) replace(path string, content []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot write %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
		}
	}()
	_, werr := tmp.Write(content)
	if w.Owner != nil {
		werr = errors.Join(werr, tmp.Chown(w.Owner.UID, w.Owner.GID))
	}
	if err = errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
