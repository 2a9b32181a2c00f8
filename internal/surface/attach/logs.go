package attach

import (
	"context"
	"crypto/rand"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// order is one reader of output and the hosts that answer it.
type order struct {
	ctx   context.Context // of the reader
	id    string
	query service.LogQuery
	lines chan []service.LogLine
	fail  chan error // has room for one

	mu    sync.Mutex
	conns map[string]*conn // :: host name → stream that the order went to; until it has answered
	done  chan struct{}    // closed when every host has answered and none is followed
	ended sync.Once
}

// StreamLogs gives the output of a service's instances on all connected hosts
// until it ends or, when followed, until ctx does. It calls send from one
// goroutine, with lines in order for each instance.
func (s *Server) StreamLogs(ctx context.Context, q service.LogQuery, send func([]service.LogLine) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := &order{
		ctx: ctx, id: rand.Text(), query: q, lines: make(chan []service.LogLine, 16),
		fail: make(chan error, 1), conns: map[string]*conn{}, done: make(chan struct{}),
	}
	asked := s.begin(o)
	defer s.finish(o)
	if !asked && !q.Follow {
		return fault.New(fault.Unavailable, "", "cannot read output of %q: no host is connected", q.Service)
	}
	for {
		// Lines came, a host failed, all have answered, or the reader left.
		select {
		case l := <-o.lines:
			if err := send(l); err != nil {
				return err
			}
		case err := <-o.fail:
			return err
		case <-o.done:
			return o.rest(send)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rest sends what came before the last host was done.
func (o *order) rest(send func([]service.LogLine) error) error {
	for {
		select {
		case l := <-o.lines:
			if err := send(l); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// begin asks the hosts that are connected, and reports whether there were any.
// None counts as having answered before all were asked.
func (s *Server) begin(o *order) (asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	s.orders[o.id] = o
	for _, a := range s.hosts {
		if a.conn != nil {
			o.askLocked(a.conn, o.query.Tail)
		}
	}
	return len(o.conns) > 0
}

// askLocked sends the order to a host. A host that takes nothing is left out.
func (o *order) askLocked(c *conn, tail int) {
	m := &pb.LogOrder{
		Id: o.id, Service: o.query.Service, Instance: o.query.Instance, TailLines: int32(tail), Follow: o.query.Follow,
	}
	select {
	case c.out <- &pb.AttachResponse{Message: &pb.AttachResponse_Log{Log: m}}:
	default:
		return
	}
	o.conns[c.name] = c
	context.AfterFunc(o.ctx, func() { o.cancel(c) })
	go func() { // ends with the host's stream or the reader
		select {
		case <-c.gone:
			o.left(c)
		case <-o.ctx.Done():
		}
	}()
}

// joinLate asks a host that attaches while the order is followed for what is
// printed from now on.
func (o *order) joinLate(c *conn) {
	if o.query.Follow {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.askLocked(c, -1)
	}
}

func (o *order) cancel(c *conn) {
	select {
	case c.out <- &pb.AttachResponse{Message: &pb.AttachResponse_Log{Log: &pb.LogOrder{Id: o.id, Cancel: true}}}:
	case <-c.gone:
	default: // its next send fails, since the order is gone
	}
}

// left notes that a host has answered, or went away.
func (o *order) left(c *conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns[c.name] != c {
		return
	}
	delete(o.conns, c.name)
	if len(o.conns) == 0 && !o.query.Follow {
		o.ended.Do(func() { close(o.done) })
	}
}

func (s *Server) finish(o *order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.orders, o.id)
}

// SendLog takes one host's answer to an order.
func (s *Server) SendLog(st grpc.ClientStreamingServer[pb.SendLogRequest, pb.SendLogResponse]) error {
	peer, err := s.cfg.PeerName(st.Context())
	if err != nil {
		return fault.ToGRPC(fault.New(fault.Unauthenticated, "", "cannot tell who sends output: %w", err))
	}
	var o *order
	var c *conn
	for {
		m, err := st.Recv()
		if isEOF(err) {
			if o != nil {
				o.left(c)
			}
			return st.SendAndClose(&pb.SendLogResponse{})
		}
		if err != nil {
			return err
		}
		if o == nil {
			if o, c = s.orderOf(m.GetId(), peer); o == nil {
				return fault.ToGRPC(fault.New(fault.NotFound, "", "nobody reads this output"))
			}
			defer o.left(c)
		}
		if err := o.take(m); err != nil {
			return fault.ToGRPC(err)
		}
	}
}

// orderOf finds an order that was given to this host.
func (s *Server) orderOf(id, host string) (*order, *conn) {
	s.mu.Lock()
	o := s.orders[id]
	s.mu.Unlock()
	if o == nil {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.conns[host]; c != nil {
		return o, c
	}
	return nil, nil
}

// end tells the reader why nothing more comes.
func (o *order) end(why error) {
	select {
	case o.fail <- why:
	default: // another failure is told already
	}
}

// take hands lines to the reader, at the reader's pace.
func (o *order) take(m *pb.SendLogRequest) error {
	if m.GetError() != "" {
		o.end(fault.New(fault.Unavailable, "", "cannot read output: %s", m.GetError()))
	}
	lines := make([]service.LogLine, 0, len(m.GetLines()))
	for _, l := range m.GetLines() {
		lines = append(lines, service.LogLine{Instance: l.GetInstance(), Revision: l.GetRevision(), Text: string(l.GetText())})
	}
	if len(lines) == 0 {
		return nil
	}
	select {
	case o.lines <- lines:
		return nil
	case <-o.ctx.Done():
		return fault.New(fault.NotFound, "", "nobody reads this output any more")
	}
}
