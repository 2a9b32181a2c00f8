package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/fairlead-platform/fairlead/view"
)

const (
	backoffBase = 50 * time.Millisecond
	backoffCap  = time.Second
	// settled is how long a stream must have lasted to begin the back-off anew.
	settled = 5 * time.Second
)

// errGoodbye ends Run: the plane took the goodbye.
var errGoodbye = errors.New("goodbye was said")

// refusal is a control that is not to be followed now.
type refusal struct{ reason, leader string }

func (r refusal) Error() string { return "refused: " + r.reason }

// followLoop follows one control after the other until ctx ends or goodbye was
// said.
func (h *Holder) followLoop(ctx context.Context) {
	l := loop{controls: h.cfg.Controls, jitter: h.cfg.Jitter, session: h.session, left: h.left}
	l.run(ctx)
}

// loop has one control after the other followed, with full jitter between two
// attempts.
type loop struct {
	controls []string
	jitter   func() float64
	slowest  time.Duration // of the back-off; zero is backoffCap
	// session follows one until the stream ends. It says whether anything was
	// taken; errGoodbye ends the loop.
	session func(ctx context.Context, address string) (took bool, err error)
	left    func(ctx context.Context, address string, err error)
}

func (l loop) run(ctx context.Context) {
	attempt := 0
	hint := ""
	for next := 0; ctx.Err() == nil; next++ {
		address := l.controls[next%len(l.controls)]
		if hint != "" {
			address, hint = hint, ""
		}
		began := time.Now()
		took, err := l.session(ctx, address)
		if errors.Is(err, errGoodbye) {
			return
		}
		l.left(ctx, address, err)
		var r refusal
		if errors.As(err, &r) && r.leader != "" && r.leader != address {
			hint = r.leader
		}
		if took || time.Since(began) > settled {
			attempt = 0
		}
		l.pause(ctx, attempt, retryAfter(err))
		attempt++
	}
}

// pause waits at least as long as the other end asks for, and beyond that between
// nothing and the back-off of this attempt. Who is asked to wait is one of many:
// their return is spread over half as long again.
func (l loop) pause(ctx context.Context, attempt int, least time.Duration) {
	slowest := cmp.Or(l.slowest, backoffCap)
	limit := max(min(slowest, backoffBase<<min(attempt, 10)), least/2)
	timer := time.NewTimer(least + time.Duration(l.jitter()*float64(limit)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// longestRetry bounds what the other end may ask for.
const longestRetry = 5 * time.Minute

// retryAfter is how long the other end asks to be left alone, by the RetryInfo of
// its status; zero where it does not say.
func retryAfter(err error) (least time.Duration) {
	s, ok := status.FromError(err)
	if !ok || err == nil {
		return 0
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			least = min(max(0, info.GetRetryDelay().AsDuration()), longestRetry)
		}
	}
	return least
}

// left says why a control is followed no more, and remembers what the next
// hello must say differently.
func (h *Holder) left(ctx context.Context, address string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connected != "" {
		h.connected = ""
		h.changedLocked()
	}
	if ctx.Err() != nil {
		return
	}
	if now := time.Now(); h.away.Failed(now) {
		h.cfg.Log.Info("not connected to a control", "control", address, "error", err, "for", h.away.For(now).Round(time.Second))
	}
	if errors.Is(err, view.ErrBase) || errors.Is(err, view.ErrDigest) {
		h.askFull = true
	}
	for _, rule := range []error{
		view.ErrBase, view.ErrDigest, view.ErrMalformed, view.ErrOlderEpoch,
		view.ErrOlderVersion, view.ErrRivalEpoch, view.ErrUnauthenticated,
	} {
		if errors.Is(err, rule) {
			h.noteLocked(fmt.Sprintf("control %s: %v", address, err))
		}
	}
}

// heed checks the epoch of a control that welcomes this follower.
func (h *Holder) heed(ctx context.Context, e view.Epoch, rules view.Rules) error {
	h.mu.Lock()
	before := h.held
	next, taken, err := before.Heed(e, rules)
	h.show = ""
	if err != nil {
		h.show = e.Incarnation
		h.mu.Unlock()
		return err
	}
	h.held = next
	if h.applied == before {
		h.applied = next
	}
	h.report(taken, e)
	h.mu.Unlock()
	if next != before {
		h.awaitKept(ctx, next)
	}
	return nil
}

// take puts a delta into force.
func (h *Holder) take(d view.Delta, rules view.Rules) error {
	h.mu.Lock()
	next, taken, err := h.held.Take(d, rules)
	if err != nil {
		h.mu.Unlock()
		return err
	}
	h.held, h.askFull = next, false
	h.report(taken, d.Epoch)
	h.mu.Unlock()
	h.apply(next)
	return nil
}

// report says what a person should know; the lock is held.
func (h *Holder) report(taken view.Taken, e view.Epoch) {
	if taken.Foreign {
		h.noteLocked(fmt.Sprintf("another incarnation of the plane is followed: %s", e))
	}
	if n := len(taken.Orphaned); n > 0 {
		some := taken.Orphaned[:min(n, 10)]
		h.noteLocked(fmt.Sprintf("%d services are absent without a tombstone and stay served: %v", n, slices.Clone(some)))
	}
}
