package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// controls are what a role may find at its addresses, in virtual time.
type controls struct {
	mu      sync.Mutex
	refuse  map[string]bool // :: address → nobody is there
	streams []*conversation // in the order of their opening
}

// conversation is one stream, of which the test is the other end.
type conversation struct {
	grpc.ClientStream
	address string
	ctx     context.Context
	down    chan *pb.ProbeResponse
	mu      sync.Mutex
	up      []*pb.ProbeRequest
}

func (c *controls) connect(ctx context.Context, address string) (Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse[address] {
		return nil, errors.New("nobody is there")
	}
	s := &conversation{address: address, ctx: ctx, down: make(chan *pb.ProbeResponse, 100)}
	c.streams = append(c.streams, s)
	return s, nil
}

func (c *controls) opened() []*conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.streams)
}

func (s *conversation) Send(m *pb.ProbeRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return io.EOF
	}
	s.up = append(s.up, m)
	return nil
}

func (s *conversation) Recv() (*pb.ProbeResponse, error) {
	select {
	case m := <-s.down:
		return m, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// looks that were told, as "handle result".
func (s *conversation) looks() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.up {
		for _, l := range m.GetLooks().GetLooks() {
			out = append(out, fmt.Sprintf("%d %s", l.GetInstance(), strings.ToLower(strings.TrimPrefix(l.GetResult().String(), "PROBE_RESULT_"))))
		}
	}
	return out
}

func (s *conversation) hello() *pb.ProberHello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up[0].GetHello()
}

func (s *conversation) assign(epoch uint64, full bool, targets ...*pb.ProbeTarget) {
	s.down <- &pb.ProbeResponse{Message: &pb.ProbeResponse_Assignment{Assignment: &pb.ProbeAssignment{
		Epoch: &pb.Epoch{Incarnation: "i", Number: epoch, Nonce: fmt.Sprint(epoch)}, Full: full, Targets: targets,
	}}}
}

func wanted(handle uint32, id string) *pb.ProbeTarget {
	return &pb.ProbeTarget{Instance: handle, Id: id, Address: id + ":80", Check: &pb.ProbeCheck{Kind: "tcp"}, Interval: durationpb.New(time.Second)}
}

// open is a network in which every port is open, but those named.
func open(refused ...string) Dial {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		if slices.Contains(refused, strings.TrimSuffix(address, ":80")) {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		here, there := net.Pipe()
		return here, there.Close()
	}
}

// inRole runs f while a role of two controls runs.
func inRole(t *testing.T, dial Dial, f func(*Role, *controls)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &controls{refuse: map[string]bool{}}
		r := NewRole(RoleConfig{Name: "p", Zone: "z", Control: []string{"one", "two"}, Connect: c.connect, Dial: dial})
		ctx, cancel := context.WithCancel(t.Context())
		var over sync.WaitGroup
		over.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		defer over.Wait()
		defer cancel()
		synctest.Wait()
		f(r, c)
	})
}

func TestLooksAreToldByTheNamesOfTheStreamInForce(t *testing.T) {
	inRole(t, open(), func(r *Role, c *controls) {
		first := c.opened()[0]
		if h := first.hello(); h.GetName() != "p" || h.GetZone() != "z" || r.Connected() {
			t.Fatalf("it says hello with %v", h)
		}
		first.assign(1, true, wanted(7, "x"), wanted(6, "w"))
		time.Sleep(3 * time.Second)
		first.down <- &pb.ProbeResponse{Message: &pb.ProbeResponse_Beat{Beat: &pb.ProberBeat{}}}
		if got := first.looks(); len(got) < 2 || slices.ContainsFunc(got, func(l string) bool { return l != "7 good" && l != "6 good" }) || !r.Connected() {
			t.Fatalf("told are %v", got)
		}
		time.Sleep(9 * time.Second) // nothing more is heard of it
		synctest.Wait()
		second := c.opened()[1]
		if first.ctx.Err() == nil || second.address != "two" || second.hello().GetEpoch().GetNumber() != 1 {
			t.Fatalf("after five seconds of silence it turns to %s with %v", second.address, second.hello())
		}
		if got := second.looks(); len(got) != 0 || r.Connected() {
			t.Fatalf("before it is said by which names, told are %v", got)
		}
		second.assign(2, true, wanted(9, "y"), wanted(8, "x"))
		time.Sleep(100 * time.Millisecond)
		if got := second.looks(); len(got) > 2 {
			t.Errorf("of what was seen while nobody listened it is told %v", got)
		}
		time.Sleep(3 * time.Second)
		if got := second.looks(); len(got) < 4 || slices.ContainsFunc(got, func(l string) bool { return l != "9 good" && l != "8 good" }) {
			t.Errorf("told are %v", got)
		}
	})
}

func TestAControlThatSaysNothingIsLeftForTheNext(t *testing.T) {
	inRole(t, open(), func(r *Role, c *controls) {
		mute := c.opened()[0] // it takes the stream, and no more
		time.Sleep(deafAfter + 10*time.Millisecond)
		synctest.Wait()
		if all := c.opened(); mute.ctx.Err() == nil || len(all) != 2 || all[1].address != "two" || r.Connected() {
			t.Errorf("after %s of silence it has opened %d streams", deafAfter, len(all))
		}
	})
}

func TestALeaderOfAnEarlierEpochIsNotFollowed(t *testing.T) {
	inRole(t, open(), func(r *Role, c *controls) {
		c.opened()[0].assign(5, true, wanted(1, "x"))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		stale := c.opened()[1]
		stale.assign(4, true, wanted(2, "y"))
		synctest.Wait()
		if stale.ctx.Err() == nil || r.Connected() {
			t.Fatal("a leader of the epoch before is followed")
		}
		time.Sleep(3 * time.Second)
		if got := stale.looks(); len(got) != 0 {
			t.Errorf("it is told %v", got)
		}
	})
}

func TestANewAssignmentAddsDropsAndHastensTargets(t *testing.T) {
	inRole(t, open(), func(_ *Role, c *controls) {
		s := c.opened()[0]
		slow := wanted(1, "x")
		slow.Interval = durationpb.New(time.Hour)
		s.assign(1, true, slow, wanted(2, "y"))
		s.down <- &pb.ProbeResponse{Message: &pb.ProbeResponse_Now{Now: &pb.ProbeNow{Instances: []uint32{1}}}}
		time.Sleep(2 * time.Second)
		if got := s.looks(); !slices.Contains(got, "1 good") || !slices.Contains(got, "2 good") {
			t.Fatalf("told are %v", got)
		}
		s.down <- &pb.ProbeResponse{Message: &pb.ProbeResponse_Assignment{Assignment: &pb.ProbeAssignment{
			Epoch: &pb.Epoch{Incarnation: "i", Number: 1, Nonce: "1"}, Targets: []*pb.ProbeTarget{wanted(1, "x"), wanted(3, "z")}, Dropped: []uint32{2},
		}}}
		time.Sleep(100 * time.Millisecond)
		before := len(s.looks())
		time.Sleep(2 * time.Second)
		got := s.looks()[before:]
		if slices.Contains(got, "2 good") || !slices.Contains(got, "3 good") || !slices.Contains(got, "1 good") {
			t.Errorf("told are %v", got)
		}
	})
}

func TestARefusalIsToldAfterAFewOthersWereLookedAt(t *testing.T) {
	inRole(t, open("x", "y", "v", "w", "u"), func(_ *Role, c *controls) {
		s := c.opened()[0]
		var targets []*pb.ProbeTarget
		for i, id := range []string{"x", "y", "v", "w", "u", "fine"} {
			target := wanted(uint32(i+1), id)
			target.Interval = durationpb.New(time.Hour)
			targets = append(targets, target)
		}
		s.assign(1, true, targets...)
		s.down <- &pb.ProbeResponse{Message: &pb.ProbeResponse_Now{Now: &pb.ProbeNow{Instances: []uint32{1}}}}
		time.Sleep(100 * time.Millisecond)
		got := s.looks()
		if len(got) != 1+aroundMost || got[aroundMost] != "1 refused" {
			t.Errorf("told are %v, want four others before the first", got)
		}
		s.down <- &pb.ProbeResponse{Message: &pb.ProbeResponse_Now{Now: &pb.ProbeNow{Instances: []uint32{2}}}}
		time.Sleep(100 * time.Millisecond)
		if n := len(s.looks()); n != 2+aroundMost {
			t.Errorf("it looks around at the next refusal as well: %v", s.looks())
		}
	})
}

func TestTwoProbersLookAtOneTargetAtDifferentTimes(t *testing.T) {
	at := func(name string) time.Duration {
		return New(Config{Name: name}).place(Target{ID: "01M8N67BYMY78NVWWS0HEBJJX3", Interval: 5 * time.Second})
	}
	seen := map[time.Duration]bool{}
	for i := range 10 {
		d := at(fmt.Sprint("prober-", i))
		if d < 0 || d >= 5*time.Second {
			t.Errorf("its place is %s", d)
		}
		seen[d.Truncate(500*time.Millisecond)] = true
	}
	if len(seen) < 4 {
		t.Errorf("ten probers look in %d of ten parts of the interval", len(seen))
	}
}

func TestWhatIsToldIsBoundedAndTheOldestIsDropped(t *testing.T) {
	o := newOutbox()
	o.add(Look{ID: "x"}) // nobody listens
	o.name(map[string]uint32{"x": 1})
	for i := range mostWaiting + 10 {
		o.add(Look{ID: "x", Took: time.Duration(i) * time.Millisecond, Result: eligibility.Failed, Detail: strings.Repeat("é", mostDetail)})
	}
	looks := o.take()
	if len(looks) != mostInBatch || looks[0].GetTookMs() != 10 || len(looks[0].GetDetail()) != mostDetail {
		t.Errorf("%d are told, the first took %d ms: %q", len(looks), looks[0].GetTookMs(), looks[0].GetDetail())
	}
	if o.lost() != 11 {
		t.Errorf("%v are lost", o.lost())
	}
	o.name(nil)
	if o.name(map[string]uint32{"x": 1}); len(o.take()) != 0 || o.lost() != 11+mostWaiting-mostInBatch {
		t.Errorf("what was not told on a stream is told on the next; %v are lost", o.lost())
	}
}
