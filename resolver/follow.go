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
type refusal struct {
	reason, leader string
	retry          time.Duration // to stay away at least; zero is for the client to say
	others         []string      // where to go instead; none says nothing
}

func (r refusal) Error() string { return "refused: " + r.reason }

// followLoop follows one control after the other until ctx ends or goodbye was
// said.
func (h *Holder) followLoop(ctx context.Context) {
	l := loop{addresses: func() []string { return h.cfg.Controls }, jitter: h.cfg.Jitter, session: h.session, left: h.left}
	l.run(ctx)
}

// loop has one control after the other followed, with full jitter between two
// attempts.
type loop struct {
	// addresses to follow, in order of preference. They may change.
	addresses func() []string
	jitter    func() float64
	slowest   time.Duration // of the back-off; zero is backoffCap
	// spread is over how long attempts are spread at least, however soon the
	// back-off would have them; nil is not at all.
	spread func() time.Duration
	// session follows one until the stream ends. It says whether anything was
	// taken; errGoodbye ends the loop.
	session func(ctx context.Context, address string) (took bool, err error)
	left    func(ctx context.Context, address string, err error)
}

func (l loop) run(ctx context.Context) {
	attempt := 0
	hint := ""
	for next := 0; ctx.Err() == nil; next++ {
		all := l.addresses()
		address := all[next%len(all)]
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
		retry := max(retryAfter(err), r.retry)
		switch {
		case len(r.others) > 0:
			next = -1 // the most preferred of them
		case retry > 0:
			hint = address // it has a time of its own there
		}
		l.wait(ctx, l.pause(attempt, retry, len(r.others) > 0))
		attempt++
	}
}

// pause is at least as long as the other end asks for, and beyond that between
// nothing and the back-off of this attempt. Whose stream ends without a word is
// one of many: their return is spread as they were told to. Who is sent elsewhere
// or asked to wait was given a time of its own, which a tenth more spreads a
// little further, for a plane that gives all the same.
func (l loop) pause(attempt int, least time.Duration, sent bool) time.Duration {
	limit := min(cmp.Or(l.slowest, backoffCap), backoffBase<<min(attempt, 10))
	if least > 0 || sent {
		limit = max(min(limit, backoffCap), least/10)
	} else if l.spread != nil {
		limit = max(limit, l.spread())
	}
	return least + time.Duration(l.jitter()*float64(limit))
}

func (l loop) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
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
		view.ErrBase, view.ErrDigest, view.ErrMalformed, view.ErrOlderEpoch, view.ErrLeft,
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
