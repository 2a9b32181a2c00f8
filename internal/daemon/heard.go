package daemon

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// heard says whether control is spoken with, by the streams of a client: one
// on which a message came and that has not ended.
type heard struct{ streams atomic.Int32 }

// connected says that at least one such stream is open.
func (h *heard) connected() bool { return h.streams.Load() > 0 }

// option has the attach streams of a client counted.
func (h *heard) option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := next(ctx, d, cc, method, opts...)
		if err != nil || method != fairleadv1.HostControlService_Attach_FullMethodName {
			return s, err
		}
		return &heardStream{ClientStream: s, of: h}, nil
	})
}

// heardStream is received from by one goroutine.
type heardStream struct {
	grpc.ClientStream
	of    *heard
	open  bool
	ended bool
}

func (s *heardStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil && !s.open && !s.ended:
		s.open = true
		s.of.streams.Add(1)
	case err != nil && s.open:
		s.open, s.ended = false, true
		s.of.streams.Add(-1)
	}
	return err
}
