package resolver

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/fairlead-platform/fairlead/internal/outage"
	"github.com/fairlead-platform/fairlead/view"
)

// HolderConfig says what to hold, where, and from whom. Name, Path and at
// least one of Controls are required.
type HolderConfig struct {
	// Name that the follower is known by; its credentials must say the same.
	Name string
	// Session identifies this process; empty means a random one.
	Session string
	// PollAddress is where hosts dial it; PublicAddress is where requests come.
	PollAddress, PublicAddress string
	// Library and version of the follower, shown by the plane.
	Library string
	// Path of the file that the table is kept in. Nobody else may write it.
	Path string
	// Controls are the addresses to follow, tried in turn.
	Controls []string
	// Dial has the credentials for them.
	Dial []grpc.DialOption
	// Polled, when set, says which hosts poll the follower, in a stable order:
	// told with each beat.
	Polled func() []string
	// Waiting, when set, says how many requests wait at the follower, by
	// service: told with each beat.
	Waiting func() map[string]int
	// Refuse says why an entry cannot be served; nil means view.Route.Check.
	Refuse func(view.Route) error
	// OnApply, when set, is called with every table that comes into force, the
	// one from disk included, by one goroutine at a time. What it has not
	// returned from is not acknowledged.
	OnApply func(*view.Table)
	// Authenticated says whether the control at the other end proved that it
	// is of the plane; nil asks that the transport is private and has integrity.
	Authenticated func(*peer.Peer) bool
	// Jitter returns a number in [0,1); nil means a random one.
	Jitter func() float64
	// Log may be nil.
	Log *slog.Logger
}

// Holder holds the route table: in memory, on disk, and up to date.
type Holder struct {
	cfg      HolderConfig
	table    atomic.Pointer[view.Table]
	dirty    chan struct{} // something is to be kept
	ack      chan struct{} // something is to be acknowledged
	goodbyes chan *goodbye
	running  atomic.Bool

	mu        sync.Mutex
	held      *view.Held
	applied   *view.Held // OnApply returned from it
	kept      *view.Held // on disk
	keepErr   error
	writes    int           // files written whole
	attempted chan struct{} // closed when the next write has ended
	changed   chan struct{}
	hooks     []*func(*view.Table) // of OnChange
	askFull   bool                 // what is held fits no delta
	show      string               // incarnation whose epoch hello shows; empty means the last heard
	connected string               // the control that is followed; empty means none
	heard     time.Time
	away      outage.Outage
	fromDisk  *view.Table // told by the file, not by a control
	notes     []string
}

// OpenHolder loads what is on disk; nothing is dialled before Run. A file that
// cannot be read is set aside and said in Status: the error is about cfg alone.
func OpenHolder(cfg HolderConfig) (*Holder, error) {
	if cfg.Name == "" || cfg.Path == "" || len(cfg.Controls) == 0 {
		return nil, errors.New("cannot open a holder: a name, a path and an address of a control are needed")
	}
	cfg.fill()
	h := &Holder{
		cfg: cfg, dirty: make(chan struct{}, 1), ack: make(chan struct{}, 1), goodbyes: make(chan *goodbye),
		attempted: make(chan struct{}), changed: make(chan struct{}),
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Path), 0o700); err != nil {
		h.noteLocked("cannot make the folder of the table: " + err.Error())
	}
	var snapshot view.Snapshot
	loaded := tableFile.load(cfg.Path, &snapshot)
	for _, n := range loaded.notes {
		h.noteLocked(n)
	}
	if loaded.found {
		h.held = view.Restore(snapshot, cfg.Refuse)
		h.kept, h.heard, h.fromDisk = h.held, loaded.written, h.held.Told()
		h.table.Store(h.held.Serving())
	}
	return h, nil
}

func (c *HolderConfig) fill() {
	if c.Session == "" {
		c.Session = rand.Text()
	}
	if c.Refuse == nil {
		c.Refuse = view.Route.Check
	}
	if c.Authenticated == nil {
		c.Authenticated = private
	}
	if c.Jitter == nil {
		c.Jitter = mathrand.Float64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// private says that the transport to p has privacy and integrity, which the
// plane's mutual TLS gives.
func private(p *peer.Peer) bool {
	info, ok := p.AuthInfo.(interface {
		GetCommonAuthInfo() credentials.CommonAuthInfo
	})
	return ok && info.GetCommonAuthInfo().SecurityLevel == credentials.PrivacyAndIntegrity
}

// Table is the table in force; nil when none was ever held. It never waits.
func (h *Holder) Table() *view.Table { return h.table.Load() }

// Changed is closed at the next change of Table or of Status, ages apart.
func (h *Holder) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// Run follows the plane and keeps what it says, until ctx ends or a goodbye was
// taken; both give nil. It can be called once.
func (h *Holder) Run(ctx context.Context) error {
	if !h.running.CompareAndSwap(false, true) {
		return errors.New("cannot run a holder twice")
	}
	h.apply(h.snapshot())
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	keeper.Go(func() { h.keepLoop(keeping) })
	h.followLoop(ctx)
	stop()
	keeper.Wait()
	return nil
}

func (h *Holder) snapshot() *view.Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// OnChange has f called with each later table, in order, one at a time, before
// it is acknowledged as served. cancel ends the calls, but for one under way.
// Run begins by calling it with the table from disk, if it was registered by then.
func (h *Holder) OnChange(f func(*view.Table)) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hook := &f
	h.hooks = append(slices.Clone(h.hooks), hook)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.hooks = slices.DeleteFunc(slices.Clone(h.hooks), func(other *func(*view.Table)) bool { return other == hook })
	}
}

// apply puts a held state into force: in memory first, so that whoever begins
// to listen meanwhile reads it; then those who listen; then it is acknowledged.
func (h *Holder) apply(held *view.Held) {
	t := held.Serving()
	h.table.Store(t)
	h.mu.Lock()
	hooks, fresh := h.hooks, h.applied.Serving() != t
	h.changedLocked()
	h.mu.Unlock()
	if fresh && h.cfg.OnApply != nil {
		h.cfg.OnApply(t)
	}
	for _, f := range hooks {
		if fresh {
			(*f)(t)
		}
	}
	h.mu.Lock()
	h.applied = held
	h.changedLocked()
	h.mu.Unlock()
	signal(h.dirty)
	signal(h.ack)
}

func (h *Holder) changedLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
