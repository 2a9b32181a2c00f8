package identity

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// renewal runs a Renewer in virtual time for d, and gives the instants of its
// calls since its beginning.
func renewal(t *testing.T, d time.Duration, call func(a *Authority, n int, csr []byte) ([]byte, []byte, error)) (calls []time.Duration, k *Keystore) {
	t.Helper()
	a := newAuthority(t, time.Now)
	k = newRole(t, a, Host, "h", time.Now)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	begin := time.Now()
	r := Renewer{Log: quiet(), Jitter: func(d time.Duration) time.Duration { return d }}
	err := r.Run(ctx, k, func(ctx context.Context, csr []byte) ([]byte, []byte, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("a call without a deadline")
		}
		calls = append(calls, time.Since(begin))
		return call(a, len(calls), csr)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	return calls, k
}

func signHost(a *Authority, csr []byte) ([]byte, []byte, error) {
	cert, err := a.Sign(csr, ID{DefaultTrustDomain, Host, "h"})
	return cert, a.Bundle(), err
}

func TestARenewerRenewsAtOneThirdOfEachLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, k := renewal(t, 101*24*time.Hour, func(a *Authority, _ int, csr []byte) ([]byte, []byte, error) { return signHost(a, csr) })
		if len(calls) != 10 {
			t.Errorf("%d renewals in 101 days: %v", len(calls), calls)
		}
		if left := time.Until(k.NotAfter()); left < 20*24*time.Hour-time.Hour {
			t.Errorf("only %v are left", left)
		}
	})
}

func TestARenewerGoesOnTryingWithGrowingWaitsPastTheEndOfTheIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		calls, k := renewal(t, 45*24*time.Hour, func(a *Authority, n int, csr []byte) ([]byte, []byte, error) {
			if down = n < 4500; down { // 10 minutes each: past day 40
				return nil, nil, errors.New("no route to control")
			}
			return signHost(a, csr)
		})
		want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}
		for i, w := range want {
			if got := calls[i+1] - calls[i]; got != w {
				t.Errorf("wait %d is %v, not %v", i, got, w)
			}
		}
		if got := calls[101] - calls[100]; got != renewLastRetry {
			t.Errorf("later waits are %v", got)
		}
		last := calls[len(calls)-1]
		if down || last < 40*24*time.Hour || time.Now().After(k.NotAfter()) {
			t.Errorf("not renewed after the outage: last call at %v, until %v", last, k.NotAfter())
		}
	})
}

func TestARenewerDoesNotSpinOnACertificateThatIsDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, time.Now)
		time.Sleep(40 * 24 * time.Hour) // of virtual time: the authority is older than what it signs
		behind := *a
		behind.opt.Now = func() time.Time { return time.Now().Add(-12 * 24 * time.Hour) }
		k := newRole(t, &behind, Host, "h", time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		calls := 0
		err := Renewer{Log: quiet()}.Run(ctx, k, func(_ context.Context, csr []byte) ([]byte, []byte, error) {
			calls++
			return signHost(&behind, csr)
		})
		if !errors.Is(err, context.DeadlineExceeded) || calls < 100 || calls > 400 {
			t.Errorf("%d calls in a day, %v", calls, err)
		}
	})
}

func TestARenewerOfNothingSaysSo(t *testing.T) {
	if err := (Renewer{}).Run(t.Context(), newKeystore(t, time.Now), nil); !errors.Is(err, ErrNotJoined) {
		t.Error(err)
	}
}

func TestAWaitIsJittered(t *testing.T) {
	r := Renewer{}.withDefaults()
	seen := map[time.Duration]bool{}
	for range 50 {
		d := r.Jitter(time.Minute)
		if d < 30*time.Second || d > time.Minute {
			t.Errorf("%v", d)
		}
		seen[d] = true
	}
	if len(seen) < 10 {
		t.Errorf("%d different waits of 50", len(seen))
	}
}
