package credential

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"
)

const (
	firstRetry = 5 * time.Second
	lastRetry  = 10 * time.Minute
	// lookAgain bounds a wait: timers stand still while a machine sleeps, its
	// clock may be set, and somebody else may write the folder.
	lookAgain    = time.Hour
	lookForFirst = time.Second
	renewTimeout = 30 * time.Second
)

// Call asks the plane to sign the request, for the identity that the
// connection shows: IdentityService/Renew at control.
type Call func(ctx context.Context, csrPEM []byte) (certPEM, bundlePEM []byte, err error)

// RenewAt is when renewal is due, at one third of the lifetime; zero where no
// identity could be read.
func (f *Folder) RenewAt() time.Time {
	h, err := f.current()
	if err != nil {
		return time.Time{}
	}
	return h.leaf.NotBefore.Add(h.leaf.NotAfter.Sub(h.leaf.NotBefore) / 3)
}

// Renew has the identity signed anew, now, and writes what comes. The key
// stays.
func (f *Folder) Renew(ctx context.Context, call Call) error {
	h, err := f.current()
	if err != nil {
		return err
	}
	csr, err := request(h.key)
	if err != nil {
		return err
	}
	cert, bundle, err := call(ctx, csr)
	if err != nil {
		return fmt.Errorf("cannot renew %s: %w", h.id, err)
	}
	key, err := readFile(filepath.Join(f.dir, FileKey), true)
	if err != nil {
		return fmt.Errorf("cannot renew %s: %w", h.id, err)
	}
	n, err := parse(key, cert, bundle)
	if err == nil && n.id.String() != h.id.String() {
		err = fmt.Errorf("it was signed for %s", n.id)
	}
	if err != nil {
		return fmt.Errorf("cannot renew %s: what came does not fit: %w", h.id, err)
	}
	if err := (Files{Key: key, Cert: encode(n), Bundle: bundle}).Write(f.dir); err != nil {
		return err
	}
	return f.Reload()
}

func encode(h *held) (out []byte) {
	for _, c := range h.chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// Run renews at one third of each certificate's life until ctx ends, and goes
// on trying with growing waits, expired or not. A folder that somebody else
// manages, or that holds nothing yet, is only read again. Failed, which may be
// nil, is told each time that it does not succeed.
func (f *Folder) Run(ctx context.Context, call Call, failed func(error)) {
	retry := firstRetry
	for ctx.Err() == nil {
		due := f.RenewAt()
		switch wait := due.Sub(f.now()); {
		case due.IsZero():
			sleep(ctx, lookForFirst)
			continue
		case f.Managed():
			sleep(ctx, lookAgain)
			continue
		case wait > 0:
			sleep(ctx, min(wait, lookAgain))
			continue
		}
		err := f.once(ctx, call)
		if err == nil {
			retry = firstRetry
			continue
		}
		if ctx.Err() == nil && failed != nil {
			failed(err)
		}
		sleep(ctx, retry/2+rand.N(retry/2))
		retry = min(2*retry, lastRetry)
	}
}

func (f *Folder) once(ctx context.Context, call Call) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	if err := f.Renew(ctx, call); err != nil {
		return err
	}
	if !f.RenewAt().After(f.now()) {
		return errors.New("the new certificate is due for renewal at once: the clocks of this machine and of the plane differ")
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
