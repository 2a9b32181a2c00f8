package httpresolver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
)

// attempt is one instance's try at a request.
type attempt struct {
	x       *exchange
	pick    resolver.Pick
	resp    *http.Response
	err     error
	outcome resolver.Outcome // of the head; the body may yet fail
	unsent  bool             // nothing of the request reached anybody
	late    bool             // its time was over before there was a head
	cancel  context.CancelFunc
}

// send sends the request, and gives up when the attempt's time is over.
func (a *attempt) send(out *http.Request) {
	ctx, cancel := context.WithCancel(out.Context())
	a.cancel = cancel
	over := func() bool { return false }
	if d := a.x.t.patience; d > 0 {
		timer := time.AfterFunc(d, cancel)
		over = func() bool { return !timer.Stop() && a.x.req.Context().Err() == nil }
	}
	a.resp, a.err = a.x.t.base.RoundTrip(out.WithContext(ctx))
	if a.late = over(); a.late && a.resp != nil { // its body would break
		a.resp, a.err = nil, errors.Join(context.Canceled, a.resp.Body.Close())
	}
	if a.err != nil {
		cancel()
	}
}

var errLate = errors.New("no answer within the time of an attempt")

// judge says what the head of the response, or the error, means.
func (a *attempt) judge() {
	var dial *net.OpError
	a.unsent = a.err != nil && errors.As(a.err, &dial) && dial.Op == "dial"
	switch err := a.err; {
	case err == nil && a.stale():
		a.outcome = resolver.Stale
	case err == nil && a.resp.StatusCode < http.StatusInternalServerError:
		a.outcome = resolver.Good
	case err == nil:
		a.outcome = resolver.Failed
	case a.late && err != nil:
		a.outcome, a.err = resolver.Failed, fmt.Errorf("%w: %w", errLate, err)
	case cancelled(a.x.req.Context(), err), lacking(err):
		a.outcome = resolver.Unknown
	case errors.Is(err, syscall.ECONNREFUSED):
		a.outcome = resolver.Refused
	default:
		a.outcome = resolver.Failed
	}
}

// lacking says that this machine has too little of something.
func lacking(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// stale says that somebody else answers, where the response or its connection
// says who does.
func (a *attempt) stale() bool {
	if a.pick.ID() == "" {
		return false
	}
	if id := a.resp.Header.Get(InstanceHeader); id != "" {
		return id != a.pick.ID()
	}
	return a.resp.TLS != nil && len(a.resp.TLS.PeerCertificates) > 0 && foreign(a.resp.TLS.PeerCertificates[0].URIs, a.x.service, a.pick.ID())
}

// foreign says that a certificate is of another service or instance: ours are
// spiffe://DOMAIN/service/SERVICE, with or without the instance after it.
func foreign(uris []*url.URL, service, instance string) bool {
	if len(uris) != 1 || uris[0].Scheme != "spiffe" {
		return false
	}
	parts := strings.Split(strings.TrimPrefix(uris[0].Path, "/"), "/")
	if len(parts) < 2 || parts[0] != "service" {
		return false
	}
	return parts[1] != service || len(parts) > 2 && parts[2] != instance
}

// final says that the response is the caller's, or that there will be none.
func (a *attempt) final() bool {
	if a.err != nil {
		return a.outcome == resolver.Unknown && !a.unsent
	}
	if a.outcome == resolver.Stale {
		return false
	}
	switch a.resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false // it says that somebody else may do better
	}
	return true
}

// discard ends an attempt in whose place another is made.
func (a *attempt) discard() {
	a.pick.Done(a.outcome)
	if a.resp != nil {
		_ = a.resp.Body.Close() // nobody reads it
		a.cancel()
	}
}

// give hands the attempt's end to the caller.
func (a *attempt) give() (*http.Response, error) {
	if a.outcome == resolver.Stale {
		a.discard()
		return nil, fmt.Errorf("cannot send a request to %s: %w", a.x.service, ErrStale)
	}
	if a.err != nil {
		a.pick.Done(a.outcome)
		return nil, a.err
	}
	a.resp.Request = a.x.req
	b := &watched{ReadCloser: a.resp.Body, a: a}
	if a.resp.Body == http.NoBody || a.x.req.Method == http.MethodHead {
		b.end(a.outcome)
		return a.resp, nil
	}
	a.resp.Body = b
	if w, ok := b.ReadCloser.(io.Writer); ok { // an upgraded connection
		a.resp.Body = &upgraded{b, w}
	}
	return a.resp, nil
}

// address makes the request that goes to one instance; its body is set later.
func address(req *http.Request, to string) (*http.Request, error) {
	out := req.Clone(req.Context())
	if out.Host == "" {
		out.Host = req.URL.Host
	}
	if !strings.Contains(to, "://") {
		out.URL.Host = to
		return out, nil
	}
	u, err := url.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("cannot send a request to %q: %w", to, err)
	}
	out.URL.Scheme, out.URL.Host, out.Host = u.Scheme, u.Host, u.Host
	if u.Path != "" && u.Path != "/" {
		out.URL = u.JoinPath(req.URL.Path)
		out.URL.RawQuery = req.URL.RawQuery
	}
	return out, nil
}
