package host

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

const (
	followEvery  = 100 * time.Millisecond
	defaultTail  = 100
	longestLine  = 64 << 10 // a longer one is sent in parts
	linesPerSend = 256
)

// logOrders answers the leader's orders for output, each on a stream of its own.
type logOrders struct {
	ctx  context.Context
	h    *Host
	conn *grpc.ClientConn

	mu      sync.Mutex
	cancels map[string]context.CancelFunc // :: order
}

func newLogOrders(ctx context.Context, h *Host, conn *grpc.ClientConn) *logOrders {
	return &logOrders{ctx: ctx, h: h, conn: conn, cancels: map[string]context.CancelFunc{}}
}

func (l *logOrders) take(o *pb.LogOrder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cancel, ok := l.cancels[o.GetId()]; ok || o.GetCancel() {
		if ok {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	l.cancels[o.GetId()] = cancel
	l.h.life.Go(func() {
		defer l.done(o.GetId())
		if err := l.answer(ctx, o); err != nil && ctx.Err() == nil {
			l.h.log.Warn("cannot send output", "service", o.GetService(), "error", err)
		}
	})
}

func (l *logOrders) done(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancels[id]()
	delete(l.cancels, id)
}

// reader is how far an order has read one instance.
type reader struct {
	in   *instance
	at   mark
	rest []byte // a line that has not ended
}

func (l *logOrders) answer(ctx context.Context, o *pb.LogOrder) error {
	stream, err := pb.NewHostControlServiceClient(l.conn).SendLog(ctx)
	if err != nil {
		return err
	}
	readers := map[string]*reader{} // :: instance → reader
	for {
		lines, err := l.h.newLines(o, readers)
		msg := &pb.SendLogRequest{Id: o.GetId()}
		if err != nil {
			msg.Error = err.Error()
		}
		for first := true; first || len(lines) > 0; first = false {
			n := min(len(lines), linesPerSend)
			msg.Lines, lines = lines[:n], lines[n:]
			if n == 0 && msg.Error == "" && o.GetFollow() {
				break
			}
			if serr := stream.Send(msg); serr != nil {
				_, rerr := stream.CloseAndRecv()
				return rerr
			}
		}
		if err != nil || !o.GetFollow() {
			_, rerr := stream.CloseAndRecv()
			return rerr
		}
		if !sleep(ctx, followEvery) {
			return nil
		}
	}
}

// newLines reads what is new of every instance that the order means. An
// instance that comes later is read from its start, others begin at their tail.
func (h *Host) newLines(o *pb.LogOrder, readers map[string]*reader) ([]*pb.LogLine, error) {
	first := len(readers) == 0
	var out []*pb.LogLine
	for _, in := range h.meant(o) {
		r := readers[in.rec.ID]
		if r == nil {
			r = &reader{in: in}
			readers[in.rec.ID] = r
			if first {
				lines, err := r.begin(o)
				if err != nil {
					return nil, err
				}
				out = append(out, lines...)
			}
		}
		lines, err := r.more(!o.GetFollow())
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	return out, nil
}

// meant are the instances of an order, oldest first.
func (h *Host) meant(o *pb.LogOrder) []*instance {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*instance
	for _, in := range h.instances {
		if in.rec.Assignment.Service == o.GetService() && (o.GetInstance() == "" || o.GetInstance() == in.rec.ID) {
			out = append(out, in)
		}
	}
	sortByID(out)
	return out
}

func (r *reader) begin(o *pb.LogOrder) ([]*pb.LogLine, error) {
	n := int(o.GetTailLines())
	if n == 0 {
		n = defaultTail
	}
	lines, at, err := r.in.journal.tail(n)
	if err != nil {
		return nil, fmt.Errorf("cannot read the output of instance %s: %w", r.in.rec.ID, err)
	}
	r.at = at
	var out []*pb.LogLine
	for _, text := range lines {
		out = append(out, r.line(text))
	}
	return out, nil
}

func (r *reader) line(text []byte) *pb.LogLine {
	return &pb.LogLine{Instance: r.in.rec.ID, Revision: r.in.rec.Assignment.Revision, Text: bytes.Clone(text)}
}

// more reads whole lines; at the end of what is asked for also one without an end.
func (r *reader) more(last bool) ([]*pb.LogLine, error) {
	var out []*pb.LogLine
	buf := make([]byte, 64<<10)
	for range 16 { // others have their turn too
		n, at, err := r.in.journal.read(r.at, buf)
		if err != nil {
			return nil, fmt.Errorf("cannot read the output of instance %s: %w", r.in.rec.ID, err)
		}
		if n == 0 {
			break
		}
		r.at = at
		r.rest = append(r.rest, buf[:n]...)
		for {
			end := bytes.IndexByte(r.rest, '\n')
			if end < 0 && len(r.rest) < longestLine {
				break
			}
			if end < 0 {
				out, r.rest = append(out, r.line(r.rest)), nil
				break
			}
			out, r.rest = append(out, r.line(r.rest[:end])), r.rest[end+1:]
		}
	}
	if last && len(r.rest) > 0 {
		out, r.rest = append(out, r.line(r.rest)), nil
	}
	return out, nil
}
