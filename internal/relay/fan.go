package relay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/may"
	"github.com/fairlead-platform/fairlead/internal/surface/witness"
	"github.com/fairlead-platform/fairlead/view"
)

// fan merges what reporters saw within a second, and tells it to the control
// that is followed. What no control takes is dropped: what is old says little.
type fan struct {
	log *slog.Logger

	mu        sync.Mutex
	merger    *evidence.Merger
	services  map[string]string        // :: instance → its service
	views     map[string]*view.Service // :: service → by which services was made
	bytes     uint64                   // of the reports of this second
	calls     uint64                   // that they tell of
	dropped   uint64                   // rows that no control took, and those beyond what it takes
	sent      uint64
	forbidden uint64 // rows by who may not call the service
}

func newFan(log *slog.Logger) *fan {
	f := &fan{log: log, services: map[string]string{}, views: map[string]*view.Service{}}
	f.merger = evidence.NewMerger(func(instance string) (string, bool) {
		s, ok := f.services[instance]
		return s, ok
	})
	return f
}

// see learns which instances a service has.
func (f *fan) see(v *view.Service) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.views[v.Name]
	f.views[v.Name] = v
	for _, e := range v.Endpoints {
		f.services[e.ID] = v.Name
	}
	if old == nil {
		return
	}
	for _, e := range old.Endpoints {
		if _, still := v.Endpoint(e.ID); !still {
			delete(f.services, e.ID)
		}
	}
}

func (f *fan) forget(service string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.views[service]; v != nil {
		for _, e := range v.Endpoints {
			delete(f.services, e.ID)
		}
		delete(f.views, service)
	}
}

// reporter begins a stream of one reporter.
func (f *fan) reporter(identity string, by may.Caller) func(*pb.ReportOutcomesRequest) bool {
	t := evidence.NewTeller(identity)
	return func(m *pb.ReportOutcomesRequest) bool {
		seen, calls := make([]evidence.Seen, 0, len(m.GetRows())), uint64(0)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, o := range m.GetRows() {
			if v := f.views[f.services[o.GetInstance()]]; v != nil && may.Check(by, v.Name, v.Callers) != nil {
				f.forbidden++
				continue
			}
			calls += min(o.GetBytes(), mostCalled)
			seen = append(seen, evidence.Seen{Instance: o.GetInstance(), OK: o.GetOk(), Failed: o.GetFailed(), Refused: o.GetRefused()})
		}
		f.bytes += uint64(proto.Size(m))
		f.calls += calls
		t.From(evidence.Caller{Zone: m.GetZone(), Revision: m.GetRevision()})
		f.merger.Take(t, m.GetNumber(), seen)
		return true
	}
}

// mostCalled bytes of one instance in a second can be honest.
const mostCalled = 1 << 40

// seal ends the second; nil is nothing to tell.
func (f *fan) seal() *pb.ReportMergedRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	second := f.merger.Seal()
	m := &pb.ReportMergedRequest{Callers: second.Callers, Groups: witness.ToGroups(second.Groups), Reporters: uint32(second.Reports), Bytes: f.bytes, Calls: f.calls}
	f.bytes, f.calls = 0, 0
	told := second.Rows[:min(len(second.Rows), evidence.MaxMerged)]
	f.dropped += uint64(len(second.Rows) - len(told))
	for _, x := range told {
		row := &pb.MergedRow{
			Instance: x.Instance, Ok: x.OK, Failed: x.Failed, Reporters: uint64(x.Reporters), Hurt: uint64(x.Hurt), Refusing: uint64(x.Refusing),
			Compared: x.Compared, Expected: x.Expected,
		}
		witness.ToApart(row, x.Apart)
		m.Rows = append(m.Rows, row)
	}
	if len(m.Rows) == 0 {
		return nil
	}
	return m
}

const sealEvery = time.Second

// send tells each second to the control at the other end, until ctx ends.
func (f *fan) send(ctx context.Context, conn grpc.ClientConnInterface) {
	f.seal() // what came while no control was followed
	var stream pb.EvidenceService_ReportMergedClient
	end := func() {}
	defer func() { end() }()
	tick := time.NewTicker(sealEvery)
	defer tick.Stop()
	for number := uint64(1); ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m := f.seal()
		if m == nil {
			continue
		}
		m.Number = number
		var err error
		if stream == nil {
			one, cancel := context.WithCancel(ctx)
			end = cancel
			stream, err = pb.NewEvidenceServiceClient(conn).ReportMerged(one)
		}
		if err == nil {
			err = stream.Send(m)
		}
		if errors.Is(err, io.EOF) && stream != nil { // it has ended: it does not wait, and says why
			if _, why := stream.CloseAndRecv(); why != nil {
				err = why
			}
		}
		f.mu.Lock()
		if f.sent++; err != nil {
			end()
			stream = nil
			f.dropped += uint64(len(m.GetRows()))
			f.log.Debug("what callers saw is dropped", "error", err)
		}
		f.mu.Unlock()
	}
}
