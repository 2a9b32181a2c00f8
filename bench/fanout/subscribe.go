package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"sync"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// perConnection streams share one.
const perConnection = 100

// each opens the subscribers' streams, those of some connections at once, and
// goes on once these have what they subscribe to: a fleet is admitted so too. Then
// it waits for ever. Open has synced called once that is so.
func each(address string, z size, open func(conn *grpc.ClientConn, i int, synced func()) error) {
	creds := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}})
	var opened sync.WaitGroup
	gate := make(chan struct{}, 4)
	for first := 0; first < z.subscribers; first += perConnection {
		gate <- struct{}{}
		opened.Add(1)
		go func() {
			defer opened.Done()
			defer func() { <-gate }()
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
			if err != nil {
				log.Fatal(err)
			}
			var all sync.WaitGroup
			for i := first; i < min(first+perConnection, z.subscribers); i++ {
				all.Add(1)
				if err := open(conn, i, all.Done); err != nil {
					log.Fatal(err)
				}
			}
			all.Wait()
		}()
	}
	opened.Wait()
	fmt.Println("subscribed")
	select {}
}

func subscribeOurs(address string, z size) {
	each(address, z, func(conn *grpc.ClientConn, i int, synced func()) error {
		name := fmt.Sprintf("c%05d", i)
		stream, err := pb.NewSubscriptionServiceClient(conn).Subscribe(metadata.AppendToOutgoingContext(context.Background(), "name", name))
		if err != nil {
			return err
		}
		hello := &pb.SubscribeHello{Name: name, Session: "s", Library: "bench 1", Features: []string{"out", "marks", "shed", "beats", "several"}}
		if err := stream.Send(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Hello{Hello: hello}}); err != nil {
			return err
		}
		e := &pb.SubscriptionEdit{}
		for _, s := range z.holds(i) {
			e.Add = append(e.Add, &pb.Subscription{Service: s})
		}
		if err := stream.Send(&pb.SubscribeRequest{Message: &pb.SubscribeRequest_Edit{Edit: e}}); err != nil {
			return err
		}
		go acknowledge(stream, synced)
		return nil
	})
}

// applied acknowledges what came together, as our client does once it is applied.
func applied(changes ...*pb.ViewChange) *pb.SubscribeRequest {
	out := &pb.ViewsApplied{}
	for _, c := range changes {
		out.Views = append(out.Views, &pb.AppliedView{Service: c.GetService(), Epoch: 1, Counter: c.GetCounter()})
	}
	return &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Applied{Applied: out}}
}

// acknowledge everything that comes, and answer beats.
func acknowledge(stream pb.SubscriptionService_SubscribeClient, synced func()) {
	for changes, all := 0, false; ; {
		m, err := stream.Recv()
		if err != nil {
			log.Fatalf("a stream ended: %v", err)
		}
		var back *pb.SubscribeRequest
		switch m := m.GetMessage().(type) {
		case *pb.SubscribeResponse_Change:
			back = applied(m.Change)
			changes++
		case *pb.SubscribeResponse_Changes:
			back = applied(m.Changes.GetChanges()...)
			changes += len(m.Changes.GetChanges())
		case *pb.SubscribeResponse_Beat:
			back = &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Beat{Beat: &pb.FollowBeat{}}}
		case *pb.SubscribeResponse_Refusal, *pb.SubscribeResponse_Refused:
			log.Fatalf("refused: %v", m)
		}
		if back == nil {
			continue
		}
		if !all && changes >= held {
			all = true
			synced()
		}
		if err := stream.Send(back); err != nil {
			log.Fatalf("cannot acknowledge: %v", err)
		}
	}
}

func subscribeXDS(address string, z size) {
	each(address, z, func(conn *grpc.ClientConn, i int, synced func()) error {
		stream, err := endpointservice.NewEndpointDiscoveryServiceClient(conn).DeltaEndpoints(context.Background())
		if err != nil {
			return err
		}
		if err := stream.Send(&discovery.DeltaDiscoveryRequest{Node: &core.Node{Id: fmt.Sprintf("c%05d", i)}, TypeUrl: typeEDS, ResourceNamesSubscribe: z.holds(i)}); err != nil {
			return err
		}
		go func() {
			for first := true; ; first = false {
				m, err := stream.Recv()
				if err != nil {
					log.Fatalf("a stream ended: %v", err)
				}
				if err := stream.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: typeEDS, ResponseNonce: m.GetNonce()}); err != nil {
					log.Fatalf("cannot acknowledge: %v", err)
				}
				if first {
					synced()
				}
			}
		}()
		return nil
	})
}
