package witness

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

const (
	beatEvery = time.Second
	// mute is for how long a prober may say nothing before its stream is ended:
	// it beats each second.
	mute = 5 * time.Second
)

// Probing joins a server to those who say what is to be looked at.
type Probing struct {
	// Admit says whether a prober may be led; hello holds the highest epoch that
	// it was led by. What it returns is told to the prober.
	Admit func(ctx context.Context, hello *pb.ProberHello) error
	// Begin begins the stream of a prober.
	Begin func(hello *pb.ProberHello) (Prober, error)
}

// Prober is one prober's stream as the plane sees it. Its methods may be called
// by several at once.
type Prober interface {
	// News is what is to be told now, in order; none is nothing.
	News() []*pb.ProbeResponse
	// Wake holds one when there may be news.
	Wake() <-chan struct{}
	// Take takes a batch in; false says that the stream has ended.
	Take(looks *pb.ProbeLooks) bool
	// Beat notes that the prober was heard.
	Beat()
	// Done is closed when the stream is to end.
	Done() <-chan struct{}
	Close()
}

type probeStream = grpc.BidiStreamingServer[pb.ProbeRequest, pb.ProbeResponse]

type probers struct {
	pb.UnimplementedProbeServiceServer
	peerName func(ctx context.Context) (string, error)
	cfg      Probing
}

// Probe serves one prober's stream. It has one sender, so that a prober that
// stalls delays only itself.
func (s *probers) Probe(st probeStream) error {
	hello, err := s.hello(st)
	if err != nil {
		return err
	}
	if err := s.cfg.Admit(st.Context(), hello); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	p, err := s.cfg.Begin(hello)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer p.Close()
	received, heard := make(chan error, 1), make(chan struct{}, 1)
	go func() { received <- receive(st, p, heard) }() // ends with the stream, which ends when this handler returns
	return send(st, p, received, heard)
}

// hello reads who comes, and holds it against the peer's identity.
func (s *probers) hello(st probeStream) (*pb.ProberHello, error) {
	peer, err := s.peerName(st.Context())
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	m, err := st.Recv()
	if err != nil {
		return nil, err
	}
	hello := m.GetHello()
	switch {
	case hello == nil:
		return nil, status.Error(codes.InvalidArgument, "cannot begin without a hello")
	case hello.GetName() != peer:
		return nil, status.Errorf(codes.PermissionDenied, "cannot speak as prober %q: the identity is %q", hello.GetName(), peer)
	}
	return hello, nil
}

func send(st probeStream, p Prober, received <-chan error, heard <-chan struct{}) error {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	silent := time.NewTimer(mute)
	defer silent.Stop()
	for {
		var news []*pb.ProbeResponse
		// There is something to tell, the second is over, the prober was heard,
		// or not for too long, or went away, or the stream is to end.
		select {
		case <-p.Wake():
			news = p.News()
		case <-beat.C:
			news = []*pb.ProbeResponse{{Message: &pb.ProbeResponse_Beat{Beat: &pb.ProberBeat{}}}}
		case <-heard:
			silent.Reset(mute)
		case <-silent.C:
			return status.Errorf(codes.Unavailable, "nothing was heard for %s", mute)
		case err := <-received:
			return err
		case <-p.Done():
			return status.Error(codes.Unavailable, "this control leads no more, or another stream of this prober took its place")
		}
		for _, m := range news {
			if err := st.Send(m); err != nil {
				return err
			}
		}
	}
}

func receive(st probeStream, p Prober, heard chan<- struct{}) error {
	for {
		m, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case m.GetLooks() != nil:
			if !p.Take(m.GetLooks()) {
				return status.Error(codes.Unavailable, "this control takes no looks any more")
			}
		case m.GetBeat() != nil:
			p.Beat()
		}
		select {
		case heard <- struct{}{}:
		default:
		}
	}
}
