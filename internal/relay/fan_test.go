package relay

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/may"
	"github.com/fairlead-platform/fairlead/view"
)

// refusing ends each stream at once.
type refusing struct {
	grpc.ClientConnInterface
	made []context.Context // of each stream
}

type refused struct {
	grpc.ClientStream
}

func (r *refusing) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	r.made = append(r.made, ctx)
	return refused{}, nil
}

func (refused) SendMsg(any) error { return io.EOF }
func (refused) CloseSend() error  { return nil }
func (refused) RecvMsg(any) error { return status.Error(codes.PermissionDenied, "you are no relay") }

func TestAControlThatTakesNoReportsIsHeardWhyAndNoStreamIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		f := newFan(slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug})))
		f.see(&view.Service{Name: "s", Endpoints: []view.Endpoint{{ID: "i"}}})
		take := f.reporter("caller/c", may.Caller{Role: "caller", Name: "c"})
		ctx, cancel := context.WithCancel(t.Context())
		conn := &refusing{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.send(ctx, conn)
		}()
		for n := range uint64(5) {
			time.Sleep(sealEvery / 2)
			take(&pb.ReportOutcomesRequest{Number: n + 1, Rows: []*pb.OutcomeRow{{Instance: "i", Ok: 1}}})
			time.Sleep(sealEvery / 2)
		}
		synctest.Wait()
		open := 0
		for _, c := range conn.made {
			if c.Err() == nil {
				open++
			}
		}
		cancel()
		<-done
		if open != 0 || len(conn.made) < 4 || int(f.dropped) != len(conn.made) {
			t.Errorf("%d of %d streams are left, and %d rows dropped", open, len(conn.made), f.dropped)
		}
		if !strings.Contains(said.String(), "you are no relay") {
			t.Errorf("it says %q", said.String())
		}
	})
}
