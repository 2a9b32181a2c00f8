package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

// trust keeps a role's identity good: it joins by a token where there is none,
// renews, and joins again where the authority was replaced. A role that lost
// trust serves on and alarms meanwhile.
type trust struct {
	role     identity.Role
	name     string
	keys     *identity.Keystore
	controls []string
	// token gives the token to join by, at each attempt; empty means none yet.
	token func(ctx context.Context) (string, error)
	// hint says where a new token goes, for people.
	hint string
	// connected says that control is spoken with: then nothing is to be asked.
	connected func() bool
	log       *slog.Logger
	lost      prometheus.Gauge

	mu    sync.Mutex
	alarm error // why there is no trust; nil where there is
}

const (
	trustEvery   = time.Second
	trustTimeout = 5 * time.Second
)

func (p *process) newTrust(t *trust) *trust {
	t.log = p.log.With("part", "trust", string(t.role), t.name)
	t.lost = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "fairlead", Subsystem: "trust", Name: "lost", Help: "1 while control is of another authority than this role's identity.",
		ConstLabels: prometheus.Labels{"role": string(t.role), "name": t.name},
	})
	p.ops.Registry().MustRegister(t.lost)
	p.ops.Check("trust of "+string(t.role)+" "+t.name, t.state)
	return t
}

// openKeys opens what a role has of its identity. Where it comes anew by itself,
// a damaged one is no reason not to start.
func openKeys(p *process, folder string, role identity.Role, anew bool) (*identity.Keystore, error) {
	options := []identity.KeystoreOption{identity.ForRole(role)}
	if anew {
		options = append(options, identity.PutAside(func(err error) {
			p.log.Error("the identity cannot be read, another is made", "part", "trust", "role", role, "error", err)
		}))
	}
	return identity.OpenKeystore(folder, options...)
}

// state is nil while the role is trusted.
func (t *trust) state() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.keys.Have() {
		return errors.New("it has not joined yet")
	}
	return t.alarm
}

// set raises or ends the alarm, and says so once.
func (t *trust) set(alarm error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case alarm == nil && t.alarm != nil:
		t.log.Info("trusted again")
		t.lost.Set(0)
	case alarm != nil && (t.alarm == nil || t.alarm.Error() != alarm.Error()):
		t.log.Error("trust is lost: it serves on with what it holds; let it join again by a new token", "error", alarm, "how", t.hint)
		t.lost.Set(1)
	}
	t.alarm = alarm
}

// joining makes the source of tokens of a role on a fleet.
func fleetToken(j cli.Joining) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if j.TokenFile == "" {
			return j.Token, nil
		}
		b, err := os.ReadFile(j.TokenFile)
		if err != nil {
			return "", fmt.Errorf("cannot read the token: %w", err)
		}
		return strings.TrimSpace(string(b)), nil
	}
}

// join gets the first identity. Refused by control it fails, unless a new
// token may come by a file; while control cannot be reached it tries again.
func (t *trust) join(ctx context.Context, wait bool) error {
	last := ""
	for {
		err := t.try(ctx)
		if err == nil {
			return nil
		}
		refused := errors.Is(err, fault.Unauthenticated) || errors.Is(err, fault.Invalid) || errors.Is(err, fault.Forbidden)
		if refused && !wait {
			return err
		}
		if text := err.Error(); text != last {
			last = text
			t.log.Warn("cannot join yet, will try again", "error", err, "hint", fault.HintOf(err))
		}
		if !sleep(ctx, trustEvery) {
			return ctx.Err()
		}
	}
}

// try joins at the first control that answers.
func (t *trust) try(ctx context.Context) error {
	token, err := t.token(ctx)
	if err != nil {
		return err
	}
	if token == "" {
		return fault.New(fault.Invalid, "make one by `"+tokenFor(t.role, t.name)+"` and give it by --token or --token-file", "%s %s has no identity yet, and no token to join by", t.role, t.name)
	}
	for _, address := range t.controls {
		ctx, cancel := context.WithTimeout(ctx, trustTimeout)
		err = identity.Join(ctx, t.keys, identity.Joining{Address: address, Token: token, Name: t.name})
		cancel()
		if err == nil {
			t.log.Info("joined", "control", address)
			return nil
		}
	}
	return err
}

// run looks at control while it is not spoken with, and renews the identity.
func (t *trust) run(ctx context.Context) error {
	var renewing sync.WaitGroup
	defer renewing.Wait()
	renewing.Go(func() { t.renew(ctx) })
	for sleep(ctx, trustEvery) {
		if t.connected() {
			t.set(nil)
			continue
		}
		alarm := t.look(ctx)
		if alarm == nil {
			continue // away is not lost
		}
		t.set(alarm)
		if err := t.try(ctx); err != nil {
			t.log.Debug("cannot join again yet", "error", err)
			continue
		}
		t.set(nil)
	}
	return nil
}

// look says whether a control answers that is of another authority. One that
// cannot be reached says nothing.
func (t *trust) look(ctx context.Context) error {
	for _, address := range t.controls {
		ctx, cancel := context.WithTimeout(ctx, trustTimeout)
		conn, err := (&tls.Dialer{Config: t.keys.ClientTLS(identity.Control)}).DialContext(ctx, "tcp", address)
		cancel()
		if err == nil {
			_ = conn.Close() // only its certificate was asked for
			return nil
		}
		if errors.Is(err, identity.ErrForeign) {
			return fmt.Errorf("control at %s: %w", address, err)
		}
	}
	return nil
}

// renew keeps the identity fresh by whichever control answers.
func (t *trust) renew(ctx context.Context) {
	call := func(ctx context.Context, csr []byte) (cert, bundle []byte, err error) {
		for _, address := range t.controls {
			if cert, bundle, err = t.renewAt(ctx, address, csr); err == nil {
				return cert, bundle, nil
			}
		}
		return nil, nil, err
	}
	for !t.keys.Have() { // who starts without waiting for it joins meanwhile
		if !sleep(ctx, trustEvery) {
			return
		}
	}
	err := identity.Renewer{Log: t.log}.Run(ctx, t.keys, call)
	if err != nil && ctx.Err() == nil {
		t.log.Error("the identity is not renewed any more", "error", err)
	}
}

func (t *trust) renewAt(ctx context.Context, address string, csr []byte) (cert, bundle []byte, err error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(identity.ClientCredentials(t.keys, identity.Control)))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot dial control: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return identity.RenewOver(conn)(ctx, csr)
}

// sleep waits, and says whether it was not for ctx that it ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
