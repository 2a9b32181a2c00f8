package resolvertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// evidence takes outcomes in.
type evidence struct {
	pb.UnimplementedEvidenceServiceServer
	p *Plane
}

// ReportOutcomes sums up what one caller saw.
func (e *evidence) ReportOutcomes(st grpc.ClientStreamingServer[pb.ReportOutcomesRequest, pb.ReportOutcomesResponse]) error {
	for {
		m, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return st.SendAndClose(&pb.ReportOutcomesResponse{})
		}
		if err != nil {
			return err
		}
		e.p.take(m)
	}
}

func (p *Plane) take(m *pb.ReportOutcomesRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range m.GetRows() {
		o := p.outcomes[r.GetInstance()]
		o.OK, o.Failed, o.Refused = o.OK+uint64(r.GetOk()), o.Failed+uint64(r.GetFailed()), o.Refused+uint64(r.GetRefused())
		o.Zone, o.Revision = m.GetZone(), m.GetRevision()
		p.outcomes[r.GetInstance()] = o
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Outcomes that were reported, by instance.
func (p *Plane) Outcomes() map[string]Outcomes {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.outcomes)
}

// AwaitOutcomes waits until what was reported is as ok wants it: reports come
// once a second.
func (p *Plane) AwaitOutcomes(ctx context.Context, ok func(map[string]Outcomes) bool) error {
	for {
		p.mu.Lock()
		changed, got := p.changed, maps.Clone(p.outcomes)
		p.mu.Unlock()
		if ok(got) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("cannot wait longer for outcomes, reported are %v: %w", got, ctx.Err())
		}
	}
}
