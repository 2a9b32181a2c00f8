package resolver

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// report carries batches to the plane over the connection that the views come
// by, until ctx ends.
func (r *Resolver) report(ctx context.Context, conn grpc.ClientConnInterface) {
	client := pb.NewEvidenceServiceClient(conn)
	var stream pb.EvidenceService_ReportOutcomesClient
	for number := uint64(1); ; {
		var b *pb.ReportOutcomesRequest
		select {
		case b = <-r.batches:
		case <-ctx.Done():
			return
		}
		var err error
		if stream == nil {
			stream, err = client.ReportOutcomes(ctx)
			number = 1
		}
		if err == nil {
			b.Number = number
			number++
			err = stream.Send(b)
		}
		if err == nil {
			r.reported.Add(uint64(len(b.GetRows())))
			continue
		}
		r.drop(len(b.GetRows()))
		if ctx.Err() == nil {
			r.notReported(stream, err)
		}
		stream = nil
	}
}

// notReported says why reports are not taken.
func (r *Resolver) notReported(stream pb.EvidenceService_ReportOutcomesClient, err error) {
	if errors.Is(err, io.EOF) && stream != nil {
		if _, why := stream.CloseAndRecv(); why != nil { // the stream has ended: it does not wait
			err = why
		}
	}
	r.views.note("outcomes are not taken by the plane: " + err.Error())
}

// drop counts rows that reach nobody.
func (r *Resolver) drop(rows int) {
	r.dropped.Add(uint64(rows))
	r.event(Event{Kind: OutcomesDropped, Count: rows})
}
