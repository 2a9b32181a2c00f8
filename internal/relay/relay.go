// Package relay is the role that serves views to many on behalf of control, and
// merges what these saw of instances. It holds views as any client does, on disk
// too, and passes them on as they came: versions, epochs, incarnations and
// markers unchanged, so that a subscriber hops between relays and control
// without a whole view. It decides nothing about instances or views; whom it
// lets in, and how fast, control's share says. Read [Relay] first.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/may"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/internal/surface/witness"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

// Config joins a relay to its process. Name, Folder, Controls and Peer are
// required.
type Config struct {
	Name, Session, Library string
	// Address at which subscribers reach it, as control is to tell them.
	Address string
	// Folder of its own, in which views are kept.
	Folder string
	// Controls to follow, and the credentials for them.
	Controls []string
	Dial     []grpc.DialOption
	// Authenticated is resolver.ViewsConfig's.
	Authenticated func(*peer.Peer) bool
	// Peer says who is at the other end of a stream, by its certificate.
	Peer func(ctx context.Context) (role, name string, err error)
	// Reporter says who reports, by what control tells reporters apart; nil is role
	// and name.
	Reporter func(ctx context.Context) (string, error)
	// Refused is views.Config's.
	Refused func(err error)
	// Revoked is called with the refusal list of control (ROLE/NAME), whole, each
	// time that it is told; nil does not ask for it.
	Revoked func(refused []string)
	// Linger is for how long the view of a service is held that nobody
	// subscribes to any more; zero means an hour.
	Linger time.Duration
	// Clock must be monotonic; nil means time.Now.
	Clock func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// MostServices that a relay holds for its subscribers together.
const MostServices = 20_000

// Relay is one relay. Open makes it from what is on its disk, Register puts its
// services on a gRPC server, and Run follows control.
type Relay struct {
	cfg    Config
	server *views.Server
	held   *resolver.Views
	fan    *fan
	say    chan struct{} // holds one: there may be something to tell control
	want   chan struct{} // holds one: subscribers may want something else
	age    atomic.Int64  // of what is held, as subscribers are told

	told    state     // to control, on this stream; of who says it
	tallied time.Time // when it was told last how far subscribers are

	mu       sync.Mutex           // no call of the server is made while it is held
	wanted   map[string]time.Time // :: service → when somebody wanted it last
	rosters  []*pb.RosterWanted   // to be answered
	draining bool
}

// Open loads what is on disk, and serves it from the beginning: an outage that
// a relay is started in is one more in which its subscribers are served.
func Open(cfg Config) (*Relay, error) {
	if cfg.Name == "" || cfg.Folder == "" || len(cfg.Controls) == 0 || cfg.Peer == nil {
		return nil, errors.New("cannot open a relay: it needs a name, a folder, an address of a control, and a way to tell who subscribes")
	}
	cfg.fill()
	r := &Relay{cfg: cfg, say: make(chan struct{}, 1), want: make(chan struct{}, 1), wanted: map[string]time.Time{}}
	r.fan = newFan(cfg.Log)
	r.server = views.New(views.Config{
		Peer: cfg.Peer, Has: r.has, Refused: cfg.Refused, Clock: cfg.Clock, Log: cfg.Log, Relay: true,
		Age: func() time.Duration { return time.Duration(r.age.Load()) },
	})
	var err error
	r.held, err = resolver.OpenViews(resolver.ViewsConfig{
		Name: cfg.Name, Session: cfg.Session, Library: cfg.Library, Folder: filepath.Join(cfg.Folder, "views"), Controls: cfg.Controls,
		Dial: cfg.Dial, Authenticated: cfg.Authenticated, Clock: cfg.Clock, Log: cfg.Log, Passer: r,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot open a relay: %w", err)
	}
	r.restore()
	return r, nil
}

func (c *Config) fill() {
	if c.Linger == 0 {
		c.Linger = time.Hour
	}
	if c.Reporter == nil {
		peer := c.Peer
		c.Reporter = func(ctx context.Context) (string, error) {
			role, name, err := peer(ctx)
			return role + "/" + name, err
		}
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// restore serves what is on disk.
func (r *Relay) restore() {
	r.server.SetDoors(r.loadDoors())
	e := r.held.Epoch()
	if e.Zero() {
		return
	}
	r.Welcomed(e, "")
	now := r.cfg.Clock()
	for _, v := range r.held.Status().Views {
		r.wanted[v.Service] = now
		if told := r.held.Told(v.Service); told != nil {
			r.publish(told, view.Adds)
		}
	}
	signal(r.want)
	r.tick()
}

// Register puts the relay's services on a gRPC server.
func (r *Relay) Register(s grpc.ServiceRegistrar) {
	r.server.Register(s)
	witness.New(witness.Config{Reporter: r.reporter}).Register(s)
}

// reporter begins the stream of one, who is known as control would know him.
func (r *Relay) reporter(ctx context.Context) (func(*pb.ReportOutcomesRequest) bool, error) {
	who, err := r.cfg.Reporter(ctx)
	if err != nil {
		return nil, err
	}
	role, name, err := r.cfg.Peer(ctx)
	return r.fan.reporter(who, may.Caller{Role: role, Name: name}), err
}

// Connected says whether a control is followed.
func (r *Relay) Connected() bool { return r.held.Connected() }

// Serves says whether there is anything to serve: views from disk, or a control
// that was heard.
func (r *Relay) Serves() bool { return !r.held.Epoch().Zero() }

// Held are the views that it holds, and how they stand.
func (r *Relay) Held() resolver.ViewsStatus { return r.held.Status() }

// Server has the subscribers.
func (r *Relay) Server() *views.Server { return r.server }

const (
	ticks   = 200 * time.Millisecond
	lingers = time.Minute // between two looks at what is wanted no more
)

// Run follows control until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { r.keepTime(ctx) })
	return r.held.Run(ctx)
}

func (r *Relay) keepTime(ctx context.Context) {
	tick := time.NewTicker(ticks)
	defer tick.Stop()
	linger := time.NewTicker(lingers)
	defer linger.Stop()
	for {
		select { // the end, something is wanted, or it is time to look
		case <-ctx.Done():
			return
		case <-r.want:
			r.follow()
		case <-tick.C:
			r.tick()
		case <-linger.C:
			r.drop()
		}
	}
}

// tick notes how old what is held is, and has control told what changed.
func (r *Relay) tick() {
	r.age.Store(int64(r.held.Age()))
	signal(r.say)
}

// has is asked before a service is subscribed to, and has it held.
func (r *Relay) has(service string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, held := r.wanted[service]; !held && len(r.wanted) >= MostServices {
		return errors.New("this relay holds as many services as it can")
	}
	if r.wanted[service].IsZero() {
		r.wanted[service] = r.cfg.Clock()
		signal(r.want)
	}
	return nil
}

// follow has the views held that subscribers want.
func (r *Relay) follow() {
	now, wanted := r.cfg.Clock(), r.server.Wanted()
	r.mu.Lock()
	for _, s := range wanted {
		r.wanted[s] = now
	}
	all := make([]string, 0, len(r.wanted))
	for s := range r.wanted {
		all = append(all, s)
	}
	r.mu.Unlock()
	r.held.Add(all...)
}

// drop gives up the views that nobody wanted for long.
func (r *Relay) drop() {
	r.follow()
	now := r.cfg.Clock()
	var gone []string
	r.mu.Lock()
	for s, at := range r.wanted {
		if now.Sub(at) > r.cfg.Linger {
			delete(r.wanted, s)
			gone = append(gone, s)
		}
	}
	r.mu.Unlock()
	r.held.Drop(gone...)
	for _, s := range gone {
		r.server.Forget(s)
		r.fan.forget(s)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
