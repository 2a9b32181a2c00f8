package host

import (
	"sync"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// outbox holds what one gateway is still to be told, one entry per instance:
// what is newer joins what waits, so that a gateway that stalls costs memory
// by instances and delays nobody. It never blocks who puts in.
type outbox struct {
	mu    sync.Mutex
	open  bool // a stream is up; otherwise all is told when one comes
	order []string
	due   map[string]*due // :: instance → due; the empty name stands for Synced
	some  chan struct{}
}

// due is what is to be told of one instance.
type due struct {
	in        *instance // set when it is to be offered
	grant     int
	recall    int
	terminate bool
	drain     time.Duration
	end       bool
}

func newOutbox() *outbox {
	return &outbox{due: map[string]*due{}, some: make(chan struct{}, 1)}
}

// begin empties the box for a new stream.
func (o *outbox) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open, o.order = true, nil
	clear(o.due)
}

// stop drops all: what is not told on this stream is told anew on the next.
func (o *outbox) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open, o.order = false, nil
	clear(o.due)
}

func (o *outbox) put(instance string, change func(*due)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.open {
		return
	}
	d := o.due[instance]
	if d == nil {
		d = &due{}
		o.due[instance] = d
		o.order = append(o.order, instance)
	}
	change(d)
	select {
	case o.some <- struct{}{}:
	default: // the sender is awake
	}
}

func (o *outbox) offer(in *instance, grant int) {
	o.put(in.rec.ID, func(d *due) { d.in, d.grant = in, d.grant+grant })
}

func (o *outbox) recall(instance string, n int) {
	o.put(instance, func(d *due) { d.recall += n })
}

func (o *outbox) terminate(instance string, drain time.Duration) {
	o.put(instance, func(d *due) { d.terminate, d.drain = true, drain })
}

func (o *outbox) end(instance string) {
	o.put(instance, func(d *due) { d.end = true })
}

func (o *outbox) synced() { o.put("", func(*due) {}) }

// take gives the messages of the entry that waits longest; none when nothing does.
func (o *outbox) take() []*pb.PollRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.order) == 0 {
		return nil
	}
	id := o.order[0]
	o.order = o.order[1:]
	d := o.due[id]
	delete(o.due, id)
	if id == "" {
		return []*pb.PollRequest{{Message: &pb.PollRequest_Synced{Synced: &pb.Synced{}}}}
	}
	return d.messages(id)
}

// messages of one entry, in the order in which they make sense: an end makes
// the rest needless.
func (d *due) messages(id string) []*pb.PollRequest {
	if d.end {
		return []*pb.PollRequest{{Message: &pb.PollRequest_Gone{Gone: &pb.InstanceGone{Instance: id}}}}
	}
	var out []*pb.PollRequest
	if d.in != nil {
		a := d.in.rec.Assignment
		out = append(out, &pb.PollRequest{Message: &pb.PollRequest_Offer{Offer: &pb.InstanceOffer{
			Instance: id, Service: a.Service, Revision: a.Revision, Minted: a.Minted, Group: a.Group,
			Address: d.in.addr.String(), Grant: int32(d.grant),
		}}})
	}
	if d.terminate {
		out = append(out, &pb.PollRequest{Message: &pb.PollRequest_Terminating{Terminating: &pb.InstanceTerminating{
			Instance: id, DrainMillis: d.drain.Milliseconds(),
		}}})
	}
	if d.recall > 0 {
		out = append(out, &pb.PollRequest{Message: &pb.PollRequest_Recall{Recall: &pb.Recall{Instance: id, Credits: int32(d.recall)}}})
	}
	return out
}
