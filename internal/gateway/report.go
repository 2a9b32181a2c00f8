package gateway

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

const (
	reportEvery = time.Second
	// batchesHeld wait for a control that does not take them; more are dropped,
	// since what is old says little.
	batchesHeld = 3
	// maxRows of a batch.
	maxRows = 20_000
)

// Reports says where outcomes are told.
type Reports struct {
	// Control is the address of the control that is followed; empty is none.
	Control func() string
	// Dial has the credentials for it.
	Dial []grpc.DialOption
	// Alone says that no control has been heard for a while, so that what views
	// say of instances is old: those that fail are set aside. Nil never says so.
	Alone func() bool
	// Zone that the gateway stands in; empty is not said.
	Zone string
}

func (r *Reports) alone() bool { return r.Alone != nil && r.Alone() }

// Report tells control once a second what became of the requests to each
// instance, until ctx ends. What control does not take is dropped and counted;
// no request waits for any of it.
func (g *Gateway) Report(ctx context.Context, to Reports) error {
	batches := make(chan *pb.ReportOutcomesRequest, batchesHeld)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		g.send(ctx, to, batches)
	}()
	defer func() { <-sent }()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for number := uint64(1); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		rows, aside := g.room.outcomes(to.alone(), time.Since(g.start))
		for _, a := range aside {
			g.metrics.aside.Inc()
			g.log.Warn("an instance fails and its siblings do not, and no control is heard: it is set aside", "instance", a.Instance, "for", a.For)
		}
		for len(rows) > 0 {
			n := min(len(rows), maxRows)
			select {
			case batches <- &pb.ReportOutcomesRequest{Number: number, Rows: rows[:n], Zone: to.Zone}:
			default:
				g.metrics.dropped.Add(float64(n))
			}
			number, rows = number+1, rows[n:]
		}
	}
}

// send carries batches to whichever control is followed.
func (g *Gateway) send(ctx context.Context, to Reports, batches <-chan *pb.ReportOutcomesRequest) {
	var s *reporting
	defer func() { s.close() }()
	for {
		var b *pb.ReportOutcomesRequest
		select {
		case <-ctx.Done():
			return
		case b = <-batches:
		}
		address := to.Control()
		if s != nil && s.address != address {
			s.close()
			s = nil
		}
		var err error
		if s == nil && address != "" {
			s, err = report(ctx, address, to.Dial)
		}
		if s != nil {
			err = s.stream.Send(b)
		}
		if s == nil || err != nil {
			g.metrics.dropped.Add(float64(len(b.GetRows())))
			g.log.Debug("outcomes are dropped", "control", address, "error", err)
			s.close()
			s = nil
		}
	}
}

// reporting is a stream to one control.
type reporting struct {
	address string
	conn    *grpc.ClientConn
	stream  pb.EvidenceService_ReportOutcomesClient
	cancel  context.CancelFunc
}

func report(ctx context.Context, address string, dial []grpc.DialOption) (*reporting, error) {
	target := address
	if !strings.Contains(target, "://") && !strings.HasPrefix(target, "unix:") {
		target = "passthrough:///" + target
	}
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, fmt.Errorf("cannot dial control %s: %w", address, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &reporting{address: address, conn: conn, cancel: cancel}
	if s.stream, err = pb.NewEvidenceServiceClient(conn).ReportOutcomes(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("cannot report to control %s: %w", address, err)
	}
	return s, nil
}

func (s *reporting) close() {
	if s != nil {
		s.cancel()
		_ = s.conn.Close() // it fails only where it was closed before
	}
}
