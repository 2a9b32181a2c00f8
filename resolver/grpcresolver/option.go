// Package grpcresolver has the calls of a grpc.ClientConn go to instances that
// package resolver picks: fairlead:///payments names the service. Each instance
// has one connection, made when it is first picked; outcomes are reported by
// themselves. Read [Option] first.
package grpcresolver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	grpcresolver "google.golang.org/grpc/resolver"

	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

// Scheme of the targets that Option serves: fairlead:///SERVICE.
const Scheme = "fairlead"

// Option has targets of Scheme picked by r, each pick narrowed down by the
// options. Without a view calls fail at once with code Unavailable and the
// reason; those that wait for ready wait. Nothing is sent again but what grpc-go
// itself knows that no instance has seen (see [WithRetries]); a service config of
// the program's own is not used.
//
// Of an outcome: Unavailable, Internal, Unknown, DataLoss and DeadlineExceeded are
// failures, any other code is an answer. What the caller cancelled says nothing.
func Option(r *resolver.Resolver, options ...resolver.Option) grpc.DialOption {
	return grpc.WithResolvers(&builder{&source{r: r, options: options}})
}

// source is where picks come from.
type source struct {
	r       *resolver.Resolver
	options []resolver.Option
	retries Retries
}

type builder struct{ from *source }

func (b *builder) Scheme() string { return Scheme }

// Build begins to tell a ClientConn of the instances of its target.
func (b *builder) Build(target grpcresolver.Target, cc grpcresolver.ClientConn, _ grpcresolver.BuildOptions) (grpcresolver.Resolver, error) {
	service := target.Endpoint()
	if service == "" || target.URL.Host != "" {
		return nil, fmt.Errorf("cannot resolve %q: a target is fairlead:///SERVICE, with three slashes", target.URL.String())
	}
	config := cc.ParseServiceConfig(b.from.retries.config())
	if config.Err != nil {
		return nil, config.Err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{from: b.from, service: service, cc: cc, config: grpcresolver.State{
		ServiceConfig: config, Attributes: attributes.New(sourceKey{}, &targeted{b.from, service}),
	}, cancel: cancel}
	w.running.Go(func() { w.run(ctx) })
	return w, nil
}

// targeted is what the balancer is told of where its picks come from.
type targeted struct {
	*source
	service string
}

type (
	sourceKey struct{} // of a State: *targeted
	keyKey    struct{} // of an Endpoint and its Address: key
)

// key names an endpoint: by its instance, or of a fallback by its address.
type key struct{ id, address, service string }

// Equal is how attributes compare.
func (k key) Equal(o any) bool { return k == o }

// watch tells one ClientConn of each view.
type watch struct {
	from    *source
	service string
	cc      grpcresolver.ClientConn
	config  grpcresolver.State
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// ResolveNow does nothing: views come by themselves.
func (w *watch) ResolveNow(grpcresolver.ResolveNowOptions) {}

// Close ends it.
func (w *watch) Close() {
	w.cancel()
	w.running.Wait()
}

func (w *watch) run(ctx context.Context) {
	var told *view.Service
	for first := true; ; first = false {
		changed := w.from.r.Changed()
		got, err := w.from.r.Resolve(w.service)
		if first || err == nil && got.View != told {
			told = got.View
			w.tell(got, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// tell the ClientConn of the endpoints in rotation. One error alone is of use
// to it: that there is no such service here.
func (w *watch) tell(got resolver.Resolution, err error) {
	if errors.Is(err, resolver.ErrNotSubscribed) {
		w.cc.ReportError(err)
		return
	}
	s := w.config
	for _, a := range got.Fallback {
		s.Endpoints = append(s.Endpoints, endpoint(key{address: a, service: w.service}))
	}
	if got.View != nil {
		for _, e := range got.View.Endpoints {
			if e.In() {
				s.Endpoints = append(s.Endpoints, endpoint(key{e.ID, e.Address, w.service}))
			}
		}
	}
	_ = w.cc.UpdateState(s) // what the balancer says of it is for resolvers that can ask again
}

func endpoint(k key) grpcresolver.Endpoint {
	return grpcresolver.Endpoint{
		Addresses:  []grpcresolver.Address{{Addr: hostPort(k.address), Attributes: attributes.New(keyKey{}, k)}},
		Attributes: attributes.New(keyKey{}, k),
	}
}
