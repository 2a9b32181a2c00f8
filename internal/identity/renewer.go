package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	renewFirstRetry = 5 * time.Second
	renewLastRetry  = 10 * time.Minute
	renewTimeout    = 30 * time.Second
	// renewLook bounds a wait: timers stand still while a machine sleeps, and
	// its clock may be set.
	renewLook = time.Hour
)

// RenewCall asks control to sign the request, for the identity that the
// connection shows.
type RenewCall func(ctx context.Context, csrPEM []byte) (certPEM, bundlePEM []byte, err error)

// Renewer keeps an identity fresh. The zero value is good.
type Renewer struct {
	Log    *slog.Logger                      // slog.Default when nil
	Now    func() time.Time                  // time.Now when nil
	Jitter func(time.Duration) time.Duration // uniform from half to whole when nil
}

// Run renews at one third of each certificate's life, and goes on trying with
// growing waits, expired or not, until ctx ends. It returns ErrNotJoined for a
// keystore without an identity, and otherwise ctx's error.
func (r Renewer) Run(ctx context.Context, k *Keystore, call RenewCall) error {
	r = r.withDefaults()
	retry := renewFirstRetry
	for ctx.Err() == nil {
		due := k.RenewAt()
		if due.IsZero() {
			return ErrNotJoined
		}
		if wait := due.Sub(r.Now()); wait > 0 {
			sleep(ctx, min(wait, renewLook))
			continue
		}
		if err := r.once(ctx, k, call); err == nil {
			r.Log.Info("identity renewed", "until", k.NotAfter())
			retry = renewFirstRetry
			continue
		} else if ctx.Err() == nil {
			wait := r.Jitter(retry)
			r.Log.Warn("cannot renew identity, will try again", "error", err, "wait", wait, "until", k.NotAfter())
			sleep(ctx, wait)
			retry = min(2*retry, renewLastRetry)
		}
	}
	return ctx.Err()
}

func (r Renewer) withDefaults() Renewer {
	if r.Log == nil {
		r.Log = slog.Default()
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	if r.Jitter == nil {
		r.Jitter = func(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
	}
	return r
}

func (r Renewer) once(ctx context.Context, k *Keystore, call RenewCall) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	csr, err := k.NewCSR()
	if err != nil {
		return err
	}
	cert, bundle, err := call(ctx, csr)
	if err != nil {
		return fmt.Errorf("control did not renew: %w", err)
	}
	if err := k.Install(cert, bundle); err != nil {
		return err
	}
	if !k.RenewAt().After(r.Now()) {
		return errors.New("the new certificate is due for renewal at once: the clocks of this machine and of control differ")
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
