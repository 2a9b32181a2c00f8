// Package witness is the server's side of the streams on which callers and
// probers report what they saw of instances, and probers are told what to look
// at. It decides nothing: who reports is known by the certificate, and what is
// taken in is for [Config] to say. Read [Server] first.
package witness

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// Config joins a Server to the discovery plane.
type Config struct {
	// PeerName says who is at the other end of a stream.
	PeerName func(ctx context.Context) (string, error)
	// Reporter begins a stream of one reporter. What it returns takes a batch
	// in, one at a time; false says that this control takes none.
	Reporter func(ctx context.Context) (func(*pb.ReportOutcomesRequest) bool, error)
	// Merged begins a stream of one relay, likewise; nil serves no relay.
	Merged func(ctx context.Context) (func(*pb.ReportMergedRequest) bool, error)
	// Probing says what probers look at; its zero value serves no prober.
	Probing Probing
}

// Server serves EvidenceService and ProbeService.
type Server struct {
	pb.UnimplementedEvidenceServiceServer
	cfg Config
}

// New makes a Server; Register puts it on a gRPC server.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// Register puts the services on a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	pb.RegisterEvidenceServiceServer(r, s)
	if s.cfg.Probing.Begin != nil {
		pb.RegisterProbeServiceServer(r, &probers{peerName: s.cfg.PeerName, cfg: s.cfg.Probing})
	}
}

// ReportOutcomes takes batches in until the stream ends, or until this control
// takes none: the reporter then finds the one that does.
func (s *Server) ReportOutcomes(stream pb.EvidenceService_ReportOutcomesServer) error {
	take, err := s.cfg.Reporter(stream.Context())
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	return takeAll(stream.Recv, take, func() error { return stream.SendAndClose(&pb.ReportOutcomesResponse{}) })
}

// ReportMerged takes a relay's batches in, likewise.
func (s *Server) ReportMerged(stream pb.EvidenceService_ReportMergedServer) error {
	if s.cfg.Merged == nil {
		return status.Error(codes.Unimplemented, "no relay reports here")
	}
	take, err := s.cfg.Merged(stream.Context())
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	return takeAll(stream.Recv, take, func() error { return stream.SendAndClose(&pb.ReportMergedResponse{}) })
}

func takeAll[M any](recv func() (M, error), take func(M) bool, end func() error) error {
	for {
		batch, err := recv()
		if errors.Is(err, io.EOF) {
			return end()
		}
		if err != nil {
			return err
		}
		if !take(batch) {
			return status.Error(codes.Unavailable, "what is seen is not taken here now: this control does not lead, or has only just begun to")
		}
	}
}
