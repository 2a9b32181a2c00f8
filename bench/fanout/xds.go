package main

import (
	"context"
	"log"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointpb "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const typeEDS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

// linear is go-control-plane's cache of one type, which sends each subscriber
// the resources that changed, whole.
type linear struct {
	cache *cache.LinearCache
	z     size

	mu   sync.Mutex
	out  map[string]map[int]bool // :: service → endpoint → out of rotation
	acks atomic.Int64
	sent atomic.Int64
}

func serveXDS(l net.Listener, z size) side {
	x := &linear{z: z, out: map[string]map[int]bool{}}
	all := map[string]types.Resource{}
	for i := range z.services {
		all[service(i)] = x.assignment(service(i))
	}
	x.cache = cache.NewLinearCache(typeEDS, cache.WithInitialResources(all))
	s := server.NewServer(context.Background(), x.cache, server.CallbackFuncs{
		StreamDeltaRequestFunc: func(_ int64, r *discovery.DeltaDiscoveryRequest) error {
			if r.GetResponseNonce() != "" {
				x.acks.Add(1)
			}
			return nil
		},
		StreamDeltaResponseFunc: func(int64, *discovery.DeltaDiscoveryRequest, *discovery.DeltaDiscoveryResponse) { x.sent.Add(1) },
	})
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(certificate())))
	endpointservice.RegisterEndpointDiscoveryServiceServer(g, s)
	go func() { log.Fatal(g.Serve(l)) }()
	return x
}

func (x *linear) assignment(name string) *endpointpb.ClusterLoadAssignment {
	group := &endpointpb.LocalityLbEndpoints{Locality: &core.Locality{Zone: "a"}, LoadBalancingWeight: wrapperspb.UInt32(1)}
	for i := range x.z.endpoints {
		if x.out[name][i] {
			continue
		}
		host, _, _ := net.SplitHostPort(address(i))
		group.LbEndpoints = append(group.LbEndpoints, &endpointpb.LbEndpoint{
			HealthStatus: core.HealthStatus_HEALTHY, LoadBalancingWeight: wrapperspb.UInt32(1000),
			// The same is told of each as by ours: its identity and its revision too.
			Metadata: &core.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": {Fields: map[string]*structpb.Value{"revision": structpb.NewStringValue(name + "-00001")}}}},
			HostIdentifier: &endpointpb.LbEndpoint_Endpoint{Endpoint: &endpointpb.Endpoint{Hostname: endpoint(name, i), Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
				Address: host, PortSpecifier: &core.SocketAddress_PortValue{PortValue: 8080},
			}}}}},
		})
	}
	return &endpointpb.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointpb.LocalityLbEndpoints{group}}
}

func (x *linear) turn(name string, i int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.out[name] == nil {
		x.out[name] = map[int]bool{}
	}
	if x.out[name][i] {
		delete(x.out[name], i)
	} else {
		x.out[name][i] = true
	}
	if err := x.cache.UpdateResource(name, x.assignment(name)); err != nil {
		log.Fatal(err)
	}
}

// await: what was sent is acknowledged, and nothing more is sent.
func (x *linear) await(z size) {
	for quiet := 0; quiet < 3; {
		sent, acks := x.sent.Load(), x.acks.Load()
		time.Sleep(200 * time.Millisecond)
		if quiet++; x.sent.Load() != sent || x.acks.Load() != acks || sent < int64(z.subscribers) || acks < sent {
			quiet = 0
		}
	}
}

func (x *linear) fail(z size) (p99, p999 time.Duration) {
	before, began := x.acks.Load(), time.Now()
	x.turn(service(0), z.endpoints/2)
	return quantiles(int64(z.subscribers), began, func() int64 { return x.acks.Load() - before })
}

func (x *linear) recover(z size) {
	x.await(z)
	x.turn(service(0), z.endpoints/2)
	x.await(z)
}

// churn tells only whether it keeps up: how long after the last change everything
// is acknowledged.
func (x *linear) churn(z size, rate float64, d time.Duration, _ int) churned {
	began := time.Now()
	out := churned{Behind: -1}
	for ; time.Since(began) < d; out.Changes++ {
		if wait := time.Until(began.Add(time.Duration(float64(out.Changes) / rate * float64(time.Second)))); wait > 0 {
			time.Sleep(wait)
		}
		x.turn(service(rand.IntN(z.services)), rand.IntN(z.endpoints))
	}
	ended := time.Now()
	for time.Since(ended) < time.Minute {
		if x.acks.Load() >= x.sent.Load() {
			out.Behind = time.Since(ended).Seconds()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return out
}
