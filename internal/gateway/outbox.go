package gateway

import (
	"sync"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/lease"
)

// outbox gathers what one poll stream is to be told, until its sender takes it.
// It is bounded by the number of instances and groups: news of one of them is
// added up or replaced.
type outbox struct {
	wake     chan struct{} // of one
	replaced chan struct{} // closed when a newer stream takes its place

	mu        sync.Mutex
	welcome   *pb.PollWelcome
	refused   map[string]int32    // :: instance → credits that ended
	returned  map[string]int32    // :: instance → credits
	withdrawn map[string]struct{} // :: instance
	ended     map[string]struct{} // :: instance
	demand    map[string]int32    // :: group → waiting
}

func newOutbox() *outbox {
	return &outbox{
		wake: make(chan struct{}, 1), replaced: make(chan struct{}), refused: map[string]int32{}, returned: map[string]int32{},
		withdrawn: map[string]struct{}{}, ended: map[string]struct{}{}, demand: map[string]int32{},
	}
}

func (o *outbox) change(f func()) {
	o.mu.Lock()
	f()
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) command(c *lease.Command) {
	o.change(func() {
		id := c.Instance.ID
		switch c.Verb {
		case lease.Return:
			o.returned[id] += int32(c.N)
		case lease.Refuse:
			o.refused[id] += int32(c.N)
		case lease.Withdraw:
			o.withdrawn[id] = struct{}{}
		}
	})
}

// forget drops the credits that were to be given back: the holdings that are
// told instead do not count them.
func (o *outbox) forget(instance string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.returned, instance)
	delete(o.refused, instance)
}

// take empties the outbox into messages, in an order that a host can follow.
func (o *outbox) take() []*pb.PollResponse {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []*pb.PollResponse
	if o.welcome != nil {
		out = append(out, &pb.PollResponse{Message: &pb.PollResponse_Welcome{Welcome: o.welcome}})
		o.welcome = nil
	}
	for id, n := range o.refused {
		out = append(out, &pb.PollResponse{Message: &pb.PollResponse_Refused{
			Refused: &pb.Refused{Instance: id, Credits: n, Reason: "connection refused"},
		}})
	}
	for id, n := range o.returned {
		out = append(out, &pb.PollResponse{Message: &pb.PollResponse_Returned{Returned: &pb.Return{Instance: id, Credits: n}}})
	}
	for id := range o.withdrawn {
		out = append(out, &pb.PollResponse{Message: &pb.PollResponse_Withdrawn{Withdrawn: &pb.Withdrawn{Instance: id}}})
	}
	for id := range o.ended {
		out = append(out, &pb.PollResponse{Message: &pb.PollResponse_Ended{Ended: &pb.Ended{Instance: id}}})
	}
	for g, n := range o.demand {
		out = append(out, &pb.PollResponse{Message: &pb.PollResponse_Demand{Demand: &pb.Demand{Group: g, Waiting: n}}})
	}
	clear(o.refused)
	clear(o.returned)
	clear(o.withdrawn)
	clear(o.ended)
	clear(o.demand)
	return out
}
