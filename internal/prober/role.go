package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/outage"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	beatEvery = time.Second
	// deafAfter is how long control may say nothing, beats included, before the
	// stream is taken for dead.
	deafAfter = 5 * time.Second
	// redialMost bounds the random wait before control is dialled again.
	redialMost = time.Second
)

// Stream to control.
type Stream = grpc.BidiStreamingClient[pb.ProbeRequest, pb.ProbeResponse]

// RoleConfig of a prober role. Name, Control and Connect are required.
type RoleConfig struct {
	Name, Zone string
	Control    []string // addresses; they are tried in turn
	// Connect opens a stream to the control at an address, until ctx ends. See
	// [ByGRPC].
	Connect func(ctx context.Context, address string) (Stream, error)
	Library string               // and version of this program, for people
	Dial    Dial                 // opens connections to targets; nil means the network's
	Logger  *slog.Logger         // nil discards
	Metrics *prometheus.Registry // nil registers nowhere
}

// Role is one prober and its stream to control. Without control it goes on
// looking at what it was assigned last, and tells nobody: what was not heard is
// silence, and silence is charged to the prober.
type Role struct {
	cfg     RoleConfig
	log     *slog.Logger
	prober  *Prober
	out     *outbox
	metrics *metrics

	mu sync.Mutex
	// epoch is the highest that it was led by. It is not kept on disk: a prober
	// changes nothing, and who does not lead takes no looks.
	epoch     view.Epoch
	targets   map[uint32]Target // :: handle on the stream in force → target
	connected bool
}

// NewRole makes a role that does nothing until it is run.
func NewRole(cfg RoleConfig) *Role {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Role{cfg: cfg, log: cfg.Logger.With("prober", cfg.Name), out: newOutbox(), targets: map[uint32]Target{}}
	r.metrics = newMetrics(cfg.Name, cfg.Metrics, r.out)
	r.prober = New(Config{Name: cfg.Name, Dial: cfg.Dial, Report: r.report})
	return r
}

// Connected says that control is heard.
func (r *Role) Connected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connected
}

func (r *Role) report(l Look) {
	r.metrics.looks.WithLabelValues(l.Result.String()).Inc()
	r.out.add(l)
}

// Run looks and tells until ctx ends.
func (r *Role) Run(ctx context.Context) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { r.prober.Run(ctx) })
	away := outage.Outage{After: outage.Moment}
	for turn := 0; ctx.Err() == nil && len(r.cfg.Control) > 0; turn++ {
		address := r.cfg.Control[turn%len(r.cfg.Control)]
		err := r.follow(ctx, address, &away)
		if ctx.Err() != nil {
			return nil
		}
		if now := time.Now(); away.Failed(now) {
			r.log.Warn("no stream to control; looks are made and told to nobody", "address", address, "error", err, "for", away.For(now).Round(time.Second))
		}
		if turn%len(r.cfg.Control) == len(r.cfg.Control)-1 { // otherwise the next address may lead
			sleep(ctx, rand.N(redialMost))
		}
	}
	return nil
}

// ByGRPC connects by a connection of the stream's own.
func ByGRPC(dial []grpc.DialOption) func(context.Context, string) (Stream, error) {
	return func(ctx context.Context, address string) (Stream, error) {
		conn, err := grpc.NewClient(address, dial...)
		if err != nil {
			return nil, fmt.Errorf("cannot dial control: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() }) // it fails only where it was closed before
		s, err := pb.NewProbeServiceClient(conn).Probe(ctx)
		if err != nil {
			return nil, fmt.Errorf("cannot speak with control: %w", err)
		}
		return s, nil
	}
}

// follow runs one stream to its end.
func (r *Role) follow(ctx context.Context, address string, away *outage.Outage) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := r.cfg.Connect(ctx, address)
	if err != nil {
		return err
	}
	deaf := time.AfterFunc(deafAfter, cancel)
	defer deaf.Stop()
	r.mu.Lock()
	kept := r.epoch
	r.mu.Unlock()
	hello := &pb.ProberHello{Name: r.cfg.Name, Zone: r.cfg.Zone, Epoch: wire.EpochProto(kept), Library: r.cfg.Library}
	if err := s.Send(&pb.ProbeRequest{Message: &pb.ProbeRequest_Hello{Hello: hello}}); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot greet control: %w", err)
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()
	defer r.silent()
	for {
		m, err := s.Recv()
		if err != nil {
			return fmt.Errorf("the stream to control ended: %w", err)
		}
		deaf.Reset(deafAfter)
		switch {
		case m.GetAssignment() != nil:
			begins := m.GetAssignment().GetFull()
			if err := r.assigned(m.GetAssignment()); err != nil {
				return err
			}
			if begins {
				r.log.Info("control is followed", "address", address, "away", away.Back(time.Now()).Round(time.Millisecond))
				sending.Go(func() {
					defer cancel()
					r.send(ctx, s)
				})
			}
		case m.GetNow() != nil:
			r.now(m.GetNow())
		}
	}
}

// assigned takes an assignment, or what changed of it. A full one begins a
// stream: handles are those of this stream from then on.
func (r *Role) assigned(a *pb.ProbeAssignment) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	epoch := wire.Epoch(a.GetEpoch())
	switch epoch.Against(r.epoch) {
	case view.Older, view.Rival:
		return fmt.Errorf("cannot follow this leader: its epoch is %s, and %s was seen", epoch, r.epoch)
	}
	r.epoch = epoch
	if a.GetFull() {
		if r.connected {
			return errors.New("control sends a second full assignment on one stream")
		}
		r.connected = true
		clear(r.targets)
	}
	for _, h := range a.GetDropped() {
		delete(r.targets, h)
	}
	for _, t := range a.GetTargets() {
		r.targets[t.GetInstance()] = Target{
			ID: t.GetId(), Address: t.GetAddress(), Interval: max(t.GetInterval().AsDuration(), leastInterval), Alone: t.GetAlone(),
			Check: Check{Kind: Kind(t.GetCheck().GetKind()), Path: t.GetCheck().GetPath()},
		}
	}
	all := make([]Target, 0, len(r.targets))
	handles := make(map[string]uint32, len(r.targets)) // :: instance → handle
	for h, t := range r.targets {
		all = append(all, t)
		handles[t.ID] = h
	}
	r.out.name(handles)
	r.prober.Assign(all)
	return nil
}

// leastInterval keeps a control that errs from making probers a burden.
const leastInterval = 100 * time.Millisecond

func (r *Role) now(m *pb.ProbeNow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range m.GetInstances() {
		if t, is := r.targets[h]; is {
			r.prober.Now(t.ID)
		}
	}
}

// silent notes that the stream ended: what is seen from now on is told to
// nobody, until another stream says by which names.
func (r *Role) silent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connected = false
	r.out.name(nil)
}

// send is the stream's one sender. It beats each second.
func (r *Role) send(ctx context.Context, s Stream) {
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for number := uint64(1); ; {
		// Something to tell, the second is over, or the stream ended.
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if s.Send(&pb.ProbeRequest{Message: &pb.ProbeRequest_Beat{Beat: &pb.ProberBeat{}}}) != nil {
				return // the receiver says why
			}
		case <-r.out.some:
			if !sleep(ctx, gather) {
				return
			}
			for looks := r.out.take(); len(looks) > 0; looks = r.out.take() {
				if s.Send(&pb.ProbeRequest{Message: &pb.ProbeRequest_Looks{Looks: &pb.ProbeLooks{Number: number, Looks: looks}}}) != nil {
					return
				}
				number++
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
