package relay

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// refusalsRetry is how long a control that ended the stream is left alone.
const refusalsRetry = time.Second

// followRefusals hears from control who is refused, until ctx ends. A control of
// an earlier program knows no such list.
func (r *Relay) followRefusals(ctx context.Context, conn grpc.ClientConnInterface) {
	for {
		err := r.refusals(ctx, conn)
		if status.Code(err) == codes.Unimplemented {
			return
		}
		r.cfg.Log.Debug("the refusal list is not followed", "error", err)
		select {
		case <-time.After(refusalsRetry):
		case <-ctx.Done():
			return
		}
	}
}

func (r *Relay) refusals(ctx context.Context, conn grpc.ClientConnInterface) error {
	stream, err := pb.NewIdentityServiceClient(conn).FollowRefusals(ctx, &pb.FollowRefusalsRequest{})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		r.cfg.Revoked(m.GetRefused())
	}
}
