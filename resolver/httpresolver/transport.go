// Package httpresolver sends the requests of an http.Client to instances that
// package resolver picks: the host in http://payments/path names the service.
// Outcomes are reported by themselves, and what may be sent again is sent to
// another instance. Read [New] first.
package httpresolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
)

const (
	// DefaultAttempts that a request is given, the first included. Those that
	// reached nobody (refused, or another instance at the address) are not counted.
	DefaultAttempts = 3
	// mostTried instances in all.
	mostTried = 8
	// InstanceHeader names the instance that answers. Where it names another than
	// was picked the address was reused: nobody is charged, and the request is sent
	// elsewhere.
	InstanceHeader = "Fairlead-Instance"
)

// ErrStale: another instance than the one that was picked answered, and the
// request may not be sent again.
var ErrStale = errors.New("another instance answers at the address")

// Transport is an http.RoundTripper that picks instances.
type Transport struct {
	r          *resolver.Resolver
	base       http.RoundTripper
	attempts   int
	patience   time.Duration // with one attempt; 0 has no end
	pick       []resolver.Option
	idempotent func(*http.Request) bool
}

// Option changes how a Transport works.
type Option func(*Transport)

// Base sends what the Transport addressed; without it a clone of
// http.DefaultTransport without proxy does.
func Base(t http.RoundTripper) Option { return func(x *Transport) { x.base = t } }

// Attempts that a request is given, the first included; at least 1.
func Attempts(n int) Option { return func(x *Transport) { x.attempts = max(1, n) } }

// AttemptTimeout is how long an attempt may take to the head of its response;
// then it has failed, and the request goes elsewhere by the rules of New. Without
// it an attempt may take as long as the request's deadline leaves.
func AttemptTimeout(d time.Duration) Option { return func(x *Transport) { x.patience = d } }

// PickBy narrows every pick down.
func PickBy(options ...resolver.Option) Option { return func(x *Transport) { x.pick = options } }

// Idempotent says which requests may be sent again after they reached an
// instance. Without it those by GET, HEAD, OPTIONS, TRACE, PUT and DELETE may,
// and those with a header Idempotency-Key.
func Idempotent(f func(*http.Request) bool) Option { return func(x *Transport) { x.idempotent = f } }

// New makes a Transport. Requests to services that r does not subscribe to fail
// with resolver.ErrNotSubscribed; all errors of picking pass through http.Client
// for errors.Is. A request is sent again only where nothing of a response was
// given to the caller, its body can be had again, its deadline leaves time, and
// the retry budget of the service allows it. Without a Base of its own URLs are
// http: of an https one the certificate would have to name an address.
//
// Of an outcome: no answer, a broken one, a deadline that passed, and a status of
// 500 and above are failures. What the caller cancelled says nothing.
func New(r *resolver.Resolver, options ...Option) *Transport {
	t := &Transport{r: r, attempts: DefaultAttempts, idempotent: byMethod}
	for _, o := range options {
		o(t)
	}
	if t.base == nil {
		t.base = plain()
	}
	return t
}

func plain() http.RoundTripper {
	d, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program replaced it
		return &http.Transport{}
	}
	c := d.Clone()
	c.Proxy = nil
	c.MaxIdleConns, c.MaxIdleConnsPerHost = 0, 64
	return c
}

// CloseIdleConnections as http.Client asks for.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func byMethod(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// RoundTrip sends the request to an instance of the service that its host names.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := &exchange{t: t, req: req, service: req.URL.Hostname(), body: replayOf(req)}
	defer x.body.end()
	if x.service == "" {
		return nil, errors.New("cannot send a request: its URL names no service")
	}
	pick, err := t.r.Pick(x.service, t.pick...)
	if err != nil {
		return nil, err
	}
	return x.run(pick)
}

// exchange is one request and all its attempts.
type exchange struct {
	t       *Transport
	req     *http.Request
	service string
	body    *replay
	tried   []resolver.Option // leave out whom it was sent to
	counted int               // attempts that may have reached one
}

// run tries until there is a response to give or nothing more may be tried.
func (x *exchange) run(pick resolver.Pick) (*http.Response, error) {
	for {
		a := x.attempt(pick)
		if a.final() {
			return a.give()
		}
		next, ok := x.another(a)
		if !ok {
			return a.give()
		}
		a.discard()
		pick = next
	}
}

// another instance to try, where the rules allow it.
func (x *exchange) another(a *attempt) (resolver.Pick, bool) {
	free := a.outcome == resolver.Refused || a.outcome == resolver.Stale || a.unsent
	again := a.unsent || x.t.idempotent(x.req)
	if !again || !x.body.again() || x.req.Context().Err() != nil || len(x.tried) >= mostTried || !free && x.counted >= x.t.attempts {
		return resolver.Pick{}, false
	}
	options := slices.Concat(x.t.pick, x.tried)
	if !free { // what reached nobody is no load that is to be bounded
		options = append(options, resolver.Retry())
	}
	pick, err := x.t.r.Pick(x.service, options...)
	return pick, err == nil
}

// attempt sends the request to one instance.
func (x *exchange) attempt(pick resolver.Pick) *attempt {
	a := &attempt{x: x, pick: pick}
	x.tried = append(x.tried, pick.Exclude())
	out, err := address(x.req, pick.Address())
	if err != nil {
		a.err, a.unsent = err, true
		return a
	}
	body, err := x.body.next()
	if err != nil {
		a.err = fmt.Errorf("cannot have the body of the request again: %w", err)
		return a
	}
	out.Body = body
	a.send(out)
	a.judge()
	if !a.unsent && a.outcome != resolver.Stale {
		x.counted++
	}
	return a
}

// cancelled says that the caller gave up, which says nothing of the instance.
func cancelled(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled)
}
