package witness

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// line is a prober's stream, of which the test is the far end.
type line struct {
	grpc.ServerStream
	ctx  context.Context
	up   chan *pb.ProbeRequest // closed: the prober went away
	down chan *pb.ProbeResponse
}

func (l *line) Context() context.Context { return l.ctx }

func (l *line) Recv() (*pb.ProbeRequest, error) {
	select {
	case m, open := <-l.up:
		if !open {
			return nil, io.EOF
		}
		return m, nil
	case <-l.ctx.Done():
		return nil, l.ctx.Err()
	}
}

func (l *line) Send(m *pb.ProbeResponse) error {
	select {
	case l.down <- m:
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// plane is what a stream is joined to.
type plane struct {
	wake, done chan struct{}
	mu         sync.Mutex
	closed     bool
	beats      int
	taken      []uint64
	full       bool // it takes no more
}

func (p *plane) News() []*pb.ProbeResponse {
	return []*pb.ProbeResponse{{Message: &pb.ProbeResponse_Assignment{Assignment: &pb.ProbeAssignment{Full: true, Version: 3}}}}
}
func (p *plane) Wake() <-chan struct{} { return p.wake }
func (p *plane) Done() <-chan struct{} { return p.done }

func (p *plane) Take(m *pb.ProbeLooks) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = append(p.taken, m.GetNumber())
	return !p.full
}

func (p *plane) Beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats++
}

func (p *plane) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// inStream runs f while a stream of prober p is served; ended has its end.
func inStream(t *testing.T, admit error, f func(l *line, p *plane, ended <-chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &plane{wake: make(chan struct{}, 1), done: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		l := &line{ctx: ctx, up: make(chan *pb.ProbeRequest), down: make(chan *pb.ProbeResponse, 100)}
		s := &probers{peerName: func(context.Context) (string, error) { return "p", nil }, cfg: Probing{
			Admit: func(context.Context, *pb.ProberHello) error { return admit },
			Begin: func(*pb.ProberHello) (Prober, error) { return p, nil },
		}}
		ended := make(chan error, 1)
		go func() { ended <- s.Probe(l); cancel() }() // gRPC ends a stream's context when its handler returns
		f(l, p, ended)
		cancel()
		synctest.Wait()
	})
}

func hello(name string) *pb.ProbeRequest {
	return &pb.ProbeRequest{Message: &pb.ProbeRequest_Hello{Hello: &pb.ProberHello{Name: name, Zone: "z"}}}
}

func TestAProberCannotSpeakUnderAnothersName(t *testing.T) {
	for name, want := range map[string]codes.Code{"other": codes.PermissionDenied, "": codes.PermissionDenied} {
		inStream(t, nil, func(l *line, _ *plane, ended <-chan error) {
			l.up <- hello(name)
			if err := <-ended; status.Code(err) != want {
				t.Errorf("who says %q is told %v", name, err)
			}
		})
	}
	inStream(t, nil, func(l *line, _ *plane, ended <-chan error) {
		l.up <- &pb.ProbeRequest{Message: &pb.ProbeRequest_Looks{Looks: &pb.ProbeLooks{}}}
		if err := <-ended; status.Code(err) != codes.InvalidArgument {
			t.Errorf("who says no name is told %v", err)
		}
	})
}

func TestAProberIsSentToAnotherControlByOneThatDoesNotLead(t *testing.T) {
	inStream(t, errors.New("this control stands by"), func(l *line, _ *plane, ended <-chan error) {
		l.up <- hello("p")
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("told %v", err)
		}
	})
	inStream(t, nil, func(l *line, p *plane, ended <-chan error) {
		l.up <- hello("p")
		synctest.Wait()
		close(p.done) // the term ends
		ends := time.Now()
		if err := <-ended; status.Code(err) != codes.Unavailable || !p.closed || time.Since(ends) != 0 {
			t.Errorf("told %v after %s", err, time.Since(ends))
		}
	})
}

func TestAProberIsToldWhatIsNewAndHeardUntilItFallsSilent(t *testing.T) {
	inStream(t, nil, func(l *line, p *plane, ended <-chan error) {
		l.up <- hello("p")
		p.wake <- struct{}{}
		if m := <-l.down; m.GetAssignment().GetVersion() != 3 {
			t.Fatalf("told %v", m)
		}
		for i := range uint64(8) { // it beats each second, longer than silence may last
			time.Sleep(time.Second)
			if m := <-l.down; m.GetBeat() == nil {
				t.Fatalf("told %v", m)
			}
			l.up <- &pb.ProbeRequest{Message: &pb.ProbeRequest_Beat{Beat: &pb.ProberBeat{}}}
			l.up <- &pb.ProbeRequest{Message: &pb.ProbeRequest_Looks{Looks: &pb.ProbeLooks{Number: i + 1}}}
		}
		synctest.Wait()
		if p.beats != 8 || len(p.taken) != 8 {
			t.Errorf("%d beats and %d batches were taken", p.beats, len(p.taken))
		}
		silent := time.Now()
		if err := <-ended; status.Code(err) != codes.Unavailable || time.Since(silent) != mute || !p.closed {
			t.Errorf("after %s of silence: %v", time.Since(silent), err)
		}
	})
}

func TestAProberThatSaysHelloAndNothingMoreIsLetGo(t *testing.T) {
	inStream(t, nil, func(l *line, p *plane, ended <-chan error) {
		l.up <- hello("p")
		began := time.Now()
		if err := <-ended; status.Code(err) != codes.Unavailable || time.Since(began) != mute || !p.closed {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

func TestAStreamEndsWithItsProberAndWithAControlThatTakesNoMore(t *testing.T) {
	inStream(t, nil, func(l *line, p *plane, ended <-chan error) {
		l.up <- hello("p")
		close(l.up)
		if err := <-ended; err != nil || !p.closed {
			t.Errorf("ended with %v", err)
		}
	})
	inStream(t, nil, func(l *line, p *plane, ended <-chan error) {
		p.full = true
		l.up <- hello("p")
		l.up <- &pb.ProbeRequest{Message: &pb.ProbeRequest_Looks{Looks: &pb.ProbeLooks{Number: 1}}}
		if err := <-ended; status.Code(err) != codes.Unavailable || !p.closed {
			t.Errorf("ended with %v", err)
		}
	})
}
