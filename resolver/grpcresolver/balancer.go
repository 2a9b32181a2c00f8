package grpcresolver

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/connectivity"
	grpcresolver "google.golang.org/grpc/resolver"

	"github.com/fairlead-platform/fairlead/resolver"
)

const balancerName = "fairlead_resolver"

// grpc-go takes balancers by their names, and only while a program starts.
func init() { balancer.Register(balancerBuilder{}) }

type balancerBuilder struct{}

func (balancerBuilder) Name() string { return balancerName }

func (balancerBuilder) Build(cc balancer.ClientConn, _ balancer.BuildOptions) balancer.Balancer {
	return &connections{cc: cc, conns: map[key]*connection{}}
}

// connections of one ClientConn, one for each endpoint. grpc-go calls its
// methods and listeners one at a time.
type connections struct {
	cc    balancer.ClientConn
	from  *targeted
	conns map[key]*connection // replaced whole, since pickers read it
}

// connection to one endpoint.
type connection struct {
	sub     balancer.SubConn
	state   atomic.Int32 // a connectivity.State
	failure atomic.Value // failed: why it is in TransientFailure
}

type failed struct{ err error }

func (c *connection) is() connectivity.State { return connectivity.State(c.state.Load()) }

// outcome of a request that found the connection failed.
func (c *connection) outcome() resolver.Outcome {
	f, _ := c.failure.Load().(failed)
	switch {
	case errors.Is(f.err, errStale):
		return resolver.Stale
	case errors.Is(f.err, syscall.ECONNREFUSED), f.err != nil && strings.Contains(f.err.Error(), "connection refused"):
		return resolver.Refused
	}
	return resolver.Failed
}

// UpdateClientConnState takes the endpoints of a new view: those that stay keep
// their connections.
func (b *connections) UpdateClientConnState(s balancer.ClientConnState) error {
	from, ok := s.ResolverState.Attributes.Value(sourceKey{}).(*targeted)
	if !ok {
		return errors.New("cannot pick: the target is not fairlead:///SERVICE")
	}
	b.from = from
	next := make(map[key]*connection, len(s.ResolverState.Endpoints))
	var errs []error
	for _, e := range s.ResolverState.Endpoints {
		k, ok := e.Attributes.Value(keyKey{}).(key)
		if !ok {
			continue
		}
		if next[k] = b.conns[k]; next[k] != nil {
			continue
		}
		c, err := b.connection(e.Addresses)
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot connect to %s: %w", k.address, err))
			delete(next, k)
			continue
		}
		next[k] = c
	}
	for k, c := range b.conns {
		if next[k] == nil {
			c.sub.Shutdown() // what goes over it may end
		}
	}
	b.conns = next
	b.publish()
	return errors.Join(errs...)
}

// connection that is made once it is picked.
func (b *connections) connection(addresses []grpcresolver.Address) (c *connection, err error) {
	c = &connection{}
	c.state.Store(int32(connectivity.Idle))
	//lint:ignore SA1019 it is deprecated for more than one address, and there is no other
	c.sub, err = b.cc.NewSubConn(addresses, balancer.NewSubConnOptions{StateListener: func(s balancer.SubConnState) {
		if s.ConnectivityState == connectivity.TransientFailure {
			c.failure.Store(failed{s.ConnectionError})
		}
		c.state.Store(int32(s.ConnectivityState))
		if s.ConnectivityState != connectivity.Shutdown {
			b.publish()
		}
	}})
	return c, err
}

// publish has waiting calls picked again.
func (b *connections) publish() {
	if b.from == nil {
		return
	}
	state, ready := b.sum()
	b.cc.UpdateState(balancer.State{ConnectivityState: state, Picker: &picker{b.from, b.conns, ready}})
}

// sum is the state of all, and those that are ready.
func (b *connections) sum() (connectivity.State, []key) {
	var ready []key
	count := map[connectivity.State]int{}
	for k, c := range b.conns {
		s := c.is()
		if count[s]++; s == connectivity.Ready {
			ready = append(ready, k)
		}
	}
	for _, s := range []connectivity.State{connectivity.Ready, connectivity.Connecting, connectivity.Idle} {
		if count[s] > 0 {
			return s, ready
		}
	}
	return connectivity.TransientFailure, nil
}

// ResolverError is told of a target that cannot be resolved.
func (b *connections) ResolverError(err error) {
	if b.from == nil {
		b.cc.UpdateState(balancer.State{ConnectivityState: connectivity.TransientFailure, Picker: failing{err}})
	}
}

// UpdateSubConnState is not called: each connection has a listener.
func (b *connections) UpdateSubConnState(balancer.SubConn, balancer.SubConnState) {}

// ExitIdle connects to one endpoint.
func (b *connections) ExitIdle() {
	if b.from == nil {
		return
	}
	pick, err := b.from.r.Pick(b.from.service, b.from.options...)
	if err != nil {
		return
	}
	if c := b.conns[b.from.key(&pick)]; c != nil {
		c.sub.Connect()
	}
	pick.Done(resolver.Unknown)
}

// Close ends it: grpc-go ends the connections.
func (b *connections) Close() {}

func (t *targeted) key(p *resolver.Pick) key { return key{p.ID(), p.Address(), t.service} }

// hostPort of an address, which may be a URL.
func hostPort(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}
