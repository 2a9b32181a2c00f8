package identity

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Files of an operator credential, as curl takes them: --cert, --key, --cacert.
const (
	OperatorCert = "operator.crt"
	OperatorKey  = "operator.key"
	OperatorCA   = "ca.crt"
)

// WriteOperatorCredential leaves in dir what a person's tool shows to the API:
// operator.crt, operator.key and ca.crt, for their owner alone. What is there
// is kept while it is good: of this authority and name, and before one third of
// its life. Call it again now and then: it has a lifetime like any identity.
func WriteOperatorCredential(a *Authority, dir, name string) error {
	id := ID{TrustDomain: a.TrustDomain(), Role: Operator, Name: name}
	if m, err := readOperator(dir); err == nil && m.id == id && fingerprint(m.bundle[0]) == a.Fingerprint() && a.opt.Now().Before(renewAt(m.leaf)) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot write operator credential: %w", err)
	}
	key, encoded, err := newKey()
	if err != nil {
		return err
	}
	csr, err := newCSR(key)
	if err != nil {
		return err
	}
	cert, err := a.Sign(csr, id)
	if err != nil {
		return err
	}
	// A crash in between leaves a certificate that does not fit its key, which
	// the next call replaces.
	return errors.Join(
		writePrivate(filepath.Join(dir, OperatorKey), encoded),
		writePrivate(filepath.Join(dir, OperatorCert), cert),
		writePrivate(filepath.Join(dir, OperatorCA), a.Bundle()),
	)
}

// OperatorTLS dials control with the operator credential in dir.
func OperatorTLS(dir string) (*tls.Config, error) {
	m, err := readOperator(dir)
	if err == nil {
		err = validNow(m, time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the operator credential in %s: %w", dir, err)
	}
	k := &Keystore{now: time.Now, current: m}
	return k.ClientTLS(Control), nil
}

func readOperator(dir string) (*material, error) {
	var parts [3][]byte
	for i, name := range []string{OperatorKey, OperatorCert, OperatorCA} {
		path := filepath.Join(dir, name)
		content, err := readPrivate(path)
		if err == nil && content == nil {
			err = fmt.Errorf("%s is missing: copy it from the data folder of control, or start control to have it made", path)
		}
		if err != nil {
			return nil, err
		}
		parts[i] = content
	}
	key, err := parseKey(parts[0])
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", OperatorKey, err)
	}
	m, err := newMaterial(bytes.Join(parts[1:], []byte("\n")), key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s do not fit: %w", OperatorCert, OperatorCA, err)
	}
	return m, nil
}
