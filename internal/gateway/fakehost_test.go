package gateway_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type instance struct{ ID, Service, Revision, Minted, Group, Address string }

// fakeHost is a small host on a real stream. It keeps the account of its credits.
type fakeHost struct {
	t      testing.TB
	name   string
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[pb.PollRequest, pb.PollResponse]
	cancel context.CancelFunc
	done   chan struct{}

	sendMu sync.Mutex
	mu     sync.Mutex
	cond   *sync.Cond
	granted,
	returned map[string]int // :: instance → credits
	refused          map[string]int
	withdrawn, ended map[string]bool
	demand           map[string]int
	holdings         map[string]int
	session          string
	err              error
}

func (r *rig) host(name string) *fakeHost {
	r.t.Helper()
	conn, err := grpc.NewClient(r.g.PollAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	h := &fakeHost{
		t: r.t, name: name, conn: conn, done: make(chan struct{}),
		granted: map[string]int{}, returned: map[string]int{}, refused: map[string]int{},
		withdrawn: map[string]bool{}, ended: map[string]bool{}, demand: map[string]int{}, holdings: map[string]int{},
	}
	h.cond = sync.NewCond(&h.mu)
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	if h.stream, err = pb.NewPollServiceClient(conn).Poll(ctx); err != nil {
		r.t.Fatal(err)
	}
	h.send(&pb.PollRequest{Message: &pb.PollRequest_Hello{Hello: &pb.PollHello{Host: name, Zone: "a", Session: "1"}}})
	go h.receive()
	r.t.Cleanup(h.hangUp)
	h.await("the welcome", func() bool { return h.session != "" })
	return h
}

// hangUp breaks the stream; the instances live on.
func (h *fakeHost) hangUp() {
	h.cancel()
	h.conn.Close()
	<-h.done
}

func (h *fakeHost) receive() {
	defer close(h.done)
	for {
		m, err := h.stream.Recv()
		h.mu.Lock()
		if err != nil {
			h.err = err
			h.cond.Broadcast()
			h.mu.Unlock()
			return
		}
		h.note(m)
		h.cond.Broadcast()
		h.mu.Unlock()
	}
}

func (h *fakeHost) note(m *pb.PollResponse) {
	switch m := m.GetMessage().(type) {
	case *pb.PollResponse_Welcome:
		h.session = m.Welcome.GetSession()
		for _, k := range m.Welcome.GetHoldings() {
			h.holdings[k.GetInstance()] = int(k.GetCredits())
		}
	case *pb.PollResponse_Returned:
		h.returned[m.Returned.GetInstance()] += int(m.Returned.GetCredits())
	case *pb.PollResponse_Refused:
		h.refused[m.Refused.GetInstance()] += int(m.Refused.GetCredits())
	case *pb.PollResponse_Withdrawn:
		h.withdrawn[m.Withdrawn.GetInstance()] = true
	case *pb.PollResponse_Ended:
		h.ended[m.Ended.GetInstance()] = true
	case *pb.PollResponse_Demand:
		h.demand[m.Demand.GetGroup()] = int(m.Demand.GetWaiting())
	}
}

// await waits until ok, which is asked under the host's lock.
func (h *fakeHost) await(what string, ok func() bool) {
	h.t.Helper()
	late := time.AfterFunc(20*time.Second, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.err == nil {
			h.err = fmt.Errorf("20 s passed")
		}
		h.cond.Broadcast()
	})
	defer late.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for !ok() {
		if h.err != nil {
			h.t.Errorf("host %s waited in vain for %s: %v", h.name, what, h.err)
			return
		}
		h.cond.Wait()
	}
}

func (h *fakeHost) send(m *pb.PollRequest) {
	h.sendMu.Lock()
	defer h.sendMu.Unlock()
	if err := h.stream.Send(m); err != nil {
		h.t.Errorf("cannot send: %v", err)
	}
}

func (h *fakeHost) offer(in instance, grant int) {
	if in.Group == "" {
		in.Group = in.Revision
	}
	h.mu.Lock()
	h.granted[in.ID] += grant
	h.mu.Unlock()
	h.send(&pb.PollRequest{Message: &pb.PollRequest_Offer{Offer: &pb.InstanceOffer{
		Instance: in.ID, Service: in.Service, Revision: in.Revision, Minted: in.Minted, Group: in.Group, Address: in.Address, Grant: int32(grant),
	}}})
}

func (h *fakeHost) terminating(id string) {
	h.send(&pb.PollRequest{Message: &pb.PollRequest_Terminating{Terminating: &pb.InstanceTerminating{Instance: id}}})
}

func (h *fakeHost) gone(id string) {
	h.send(&pb.PollRequest{Message: &pb.PollRequest_Gone{Gone: &pb.InstanceGone{Instance: id}}})
}

func (h *fakeHost) recall(id string, n int) {
	h.send(&pb.PollRequest{Message: &pb.PollRequest_Recall{Recall: &pb.Recall{Instance: id, Credits: int32(n)}}})
}

// synced returns when the gateway has taken in all that was sent before: it
// answers the withdrawal of an instance that nobody knows at once.
func (h *fakeHost) synced() {
	h.t.Helper()
	h.send(&pb.PollRequest{Message: &pb.PollRequest_Synced{Synced: &pb.Synced{}}})
	h.barrier()
}

func (h *fakeHost) barrier() {
	h.t.Helper()
	h.mu.Lock()
	id := fmt.Sprintf("barrier-%d", len(h.withdrawn))
	h.mu.Unlock()
	h.terminating(id)
	h.await("the barrier", func() bool { return h.withdrawn[id] })
}

// tryHost says hello under a name, and returns how it was taken.
func (r *rig) tryHost(name string) error {
	r.t.Helper()
	conn, err := grpc.NewClient(r.g.PollAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := pb.NewPollServiceClient(conn).Poll(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(&pb.PollRequest{Message: &pb.PollRequest_Hello{Hello: &pb.PollHello{Host: name}}}); err != nil {
		return err
	}
	_, err = s.Recv()
	return err
}
