package grpcresolver

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/fairlead-platform/fairlead/resolver"
)

// mostTried endpoints whose connections are looked at for one call.
const mostTried = 8

// InstanceTrailer names the instance that answers. Where it names another than
// was picked the address was reused: nobody is charged.
const InstanceTrailer = "fairlead-instance"

// picker picks for calls until the next state of any connection.
type picker struct {
	from  *targeted
	conns map[key]*connection
	ready []key
}

// failing fails every call.
type failing struct{ err error }

func (f failing) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{}, f.err
}

// Pick an endpoint whose connection is ready. One that has none yet is
// connected to, and another is picked meanwhile.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	of, _ := info.Ctx.Value(callKey{}).(*call)
	options := p.from.options[:len(p.from.options):len(p.from.options)]
	if of != nil {
		if again := of.again(); again != nil {
			return p.retry(of, append(options, again...))
		}
	}
	coming := false
	var last error
	for range mostTried {
		pick, err := p.from.r.Pick(p.from.service, options...)
		if err != nil {
			if len(options) == len(p.from.options) { // it is no matter of connections
				return balancer.PickResult{}, err
			}
			break
		}
		options = append(options, pick.Exclude())
		c := p.conns[p.from.key(&pick)]
		switch {
		case c == nil: // of a view that is told to grpc-go just now
			coming = true
		case c.is() == connectivity.Ready:
			return result(c, pick, of), nil
		case c.is() == connectivity.TransientFailure:
			f, _ := c.failure.Load().(failed)
			last = f.err
			pick.Done(c.outcome())
			continue
		default:
			c.sub.Connect() // nothing, where it is connecting
			coming = true
		}
		pick.Done(resolver.Unknown)
	}
	if r, ok := p.anyReady(of); ok {
		return r, nil
	}
	if coming {
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	return balancer.PickResult{}, fmt.Errorf("cannot reach an instance of %s: %w", p.from.service, cmp.Or(last, errClosing))
}

// anyReady is one of the endpoints that are connected already, where those that
// were picked are not.
func (p *picker) anyReady(of *call) (balancer.PickResult, bool) {
	if len(p.ready) == 0 {
		return balancer.PickResult{}, false
	}
	at := rand.IntN(len(p.ready))
	for i := range p.ready {
		k := p.ready[(at+i)%len(p.ready)]
		c := p.conns[k]
		if c == nil || k.id == "" || c.is() != connectivity.Ready {
			continue
		}
		options := append(p.from.options[:len(p.from.options):len(p.from.options)], resolver.Instance(k.id))
		if pick, err := p.from.r.Pick(p.from.service, options...); err == nil {
			return result(c, pick, of), true
		}
	}
	return balancer.PickResult{}, false
}

// retry picks for a call that failed elsewhere, once within the budget. An
// endpoint that is not connected is not waited for: another one is picked of those
// that are.
func (p *picker) retry(of *call, options []resolver.Option) (balancer.PickResult, error) {
	pick, err := p.from.r.Pick(p.from.service, options...)
	if err != nil { // by a status grpc-go knows that the call is not to be tried again
		return balancer.PickResult{}, status.Errorf(codes.Unavailable, "the call failed, and is not sent again: %v", err)
	}
	if c := p.conns[p.from.key(&pick)]; c != nil && c.is() == connectivity.Ready {
		return result(c, pick, of), nil
	} else if c != nil {
		c.sub.Connect()
	}
	pick.Done(resolver.Unknown)
	if r, ok := p.readyBut(of); ok {
		return r, nil
	}
	return balancer.PickResult{}, status.Errorf(codes.Unavailable, "the call failed, and no other instance of %s is connected", p.from.service)
}

// readyBut is one that is connected, and was not tried for the call.
func (p *picker) readyBut(of *call) (balancer.PickResult, bool) {
	tried := of.again()[1:] // without the budget: it was taken from
	for range mostTried {
		pick, err := p.from.r.Pick(p.from.service, append(p.from.options[:len(p.from.options):len(p.from.options)], tried...)...)
		if err != nil {
			return balancer.PickResult{}, false
		}
		if c := p.conns[p.from.key(&pick)]; c != nil && c.is() == connectivity.Ready {
			return result(c, pick, of), true
		}
		tried = append(tried, pick.Exclude())
		pick.Done(resolver.Unknown)
	}
	return balancer.PickResult{}, false
}

func result(c *connection, pick resolver.Pick, of *call) balancer.PickResult {
	id := pick.ID()
	return balancer.PickResult{SubConn: c.sub, Done: func(d balancer.DoneInfo) {
		if of != nil && d.Err != nil && d.BytesSent {
			of.failed(&pick)
		}
		pick.Done(outcome(d, id))
	}}
}

// outcome of a call.
func outcome(d balancer.DoneInfo, id string) resolver.Outcome {
	if !d.BytesSent && !d.BytesReceived && d.Err == nil { // it was not sent at all
		return resolver.Unknown
	}
	if who := d.Trailer.Get(InstanceTrailer); id != "" && len(who) > 0 && who[0] != id {
		return resolver.Stale
	}
	switch status.Code(d.Err) {
	case codes.Canceled:
		return resolver.Unknown
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss, codes.DeadlineExceeded:
		return resolver.Failed
	}
	return resolver.Good
}

var errClosing = errors.New("its connection is closing")

// errStale ends a handshake with another instance than was picked.
var errStale = errors.New("another instance answers at the address")
