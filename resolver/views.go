package resolver

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/fairlead-platform/fairlead/internal/outage"
	"github.com/fairlead-platform/fairlead/view"
)

// ViewsConfig says whose views to hold, where, and from whom. Name, Folder and
// at least one of Controls are required.
type ViewsConfig struct {
	// Name that the subscriber is known by; its credentials must say the same.
	Name string
	// Session identifies this process; empty means a random one.
	Session string
	// Library and version of the subscriber, shown by the plane.
	Library string
	// Folder that the views are kept in, a file each. Nobody else may write there.
	Folder string
	// Controls are the addresses to subscribe at, tried in turn.
	Controls []string
	// Relays says whether the relays that the plane names are subscribed at too.
	Relays Relays
	// Passer passes views on; nil for everyone but a relay.
	Passer Passer
	// Dial has the credentials for them.
	Dial []grpc.DialOption
	// Authenticated says whether the control at the other end proved that it
	// is of the plane; nil asks that the transport is private and has integrity.
	Authenticated func(*peer.Peer) bool
	// Calls are how many were made since the start, how many of them failed at an
	// instance, and how many had nowhere to go; nil is not known. It says what
	// became of them while no plane was heard.
	Calls func() (all, failed, unroutable uint64)
	// Jitter returns a number in [0,1); nil means a random one.
	Jitter func() float64
	// Clock must be monotonic; nil means time.Now.
	Clock func() time.Time
	// Log may be nil.
	Log *slog.Logger

	// name that is known only later; nil is Name.
	name func() string
	// beside runs on the connection to a control that has welcomed this
	// subscriber, until its stream ends; nil is nothing.
	beside func(context.Context, grpc.ClientConnInterface)
	// connect to a control; nil dials by Dial.
	connect func(address string) (link, error)
	// slowest bounds the back-off between two connections; zero means backoffCap.
	slowest time.Duration
	// event is told of what happens; nil tells nobody.
	event func(Event)
}

// Views holds the views of the services that are wanted: in memory, on disk,
// and up to date. Read [view.HeldService] for what it takes and what not.
type Views struct {
	cfg   ViewsConfig
	began time.Time
	dirty chan struct{} // something is to be kept
	edit  chan struct{} // what is wanted changed
	ack   chan struct{} // something is to be acknowledged

	panics  panics
	running atomic.Bool
	lock    folderLock // the keeper's own

	delivery sync.Mutex // one view is told at a time

	mu        sync.Mutex
	wanted    map[string]bool // nil: nobody said yet
	held      map[string]*holding
	marks     view.Marks
	keptMarks int             // of marks, how many heeds are on disk
	heeds     int             // how often marks changed
	gone      map[string]bool // :: service → its file is to be removed
	hook      *func(*view.Service)
	keepErr   error
	refusals  uint64 // views that were not taken
	connected string
	doors     doors
	keptDoors doors
	failed    map[string]bool // :: relay → it could not be subscribed at since one could
	heard     time.Time       // a control, by itself or by a relay's word
	missing   []string        // features that the plane relies on and this program lacks
	away      outage.Outage
	lost      *lost         // the last stream that was welcomed has ended; nil: it has not
	shed      time.Duration // that the plane told last
	changed   chan struct{}
	notes     []string
}

// lost is when a stream ended, and how many calls had been made.
type lost struct {
	at                      time.Time
	all, failed, unroutable uint64
}

// holding is what is held of one service.
type holding struct {
	asleep   *dormant // on disk, and not yet asked for: all below are nil; see wakeLocked
	held     *view.HeldService
	kept     *view.HeldService // on disk
	applied  *view.HeldService // who listens was told
	acked    *view.HeldService // on the present stream
	fromDisk *view.HeldService
	refused  string // why the plane does not give its view
}

// OpenViews looks at what is on disk; nothing is dialled before Run. Files are
// checked whole, and views worked out of them when they are asked for. A file that
// cannot be read is set aside and said in Status: the error is about cfg alone.
func OpenViews(cfg ViewsConfig) (*Views, error) {
	if cfg.Name == "" || cfg.Folder == "" || len(cfg.Controls) == 0 {
		return nil, errors.New("cannot open views: a name, a folder and an address of a control are needed")
	}
	cfg.fill()
	h := &Views{
		cfg: cfg, began: cfg.Clock(), dirty: make(chan struct{}, 1), edit: make(chan struct{}, 1), ack: make(chan struct{}, 1),
		held: map[string]*holding{}, gone: map[string]bool{}, failed: map[string]bool{}, changed: make(chan struct{}),
	}
	if err := os.MkdirAll(cfg.Folder, 0o700); err != nil {
		h.noteLocked("cannot make the folder of the views: " + err.Error())
	}
	h.load()
	return h, nil
}

func (c *ViewsConfig) fill() {
	if c.Session == "" {
		c.Session = rand.Text()
	}
	if c.Passer != nil {
		c.beside = c.Passer.Beside
	}
	if c.Authenticated == nil {
		c.Authenticated = private
	}
	if c.Jitter == nil {
		c.Jitter = mathrand.Float64
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.name == nil {
		c.name = func() string { return c.Name }
	}
	if c.connect == nil {
		c.connect = c.dial
	}
	if c.event == nil {
		c.event = func(Event) {}
	}
}

// View to pick a service's instances by; nil where none is held. It never waits
// for the plane.
func (h *Views) View(service string) *view.Service {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.held[service]; x != nil {
		h.wakeLocked(service, x)
		return x.held.Serving()
	}
	return nil
}

// has says whether something is held of a service.
func (h *Views) has(service string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.held[service]
	return x != nil && !x.bare()
}

// bare says that nothing is held.
func (x *holding) bare() bool { return x.held == nil && x.asleep == nil }

// Want says which services' views are to be held; those of others are dropped,
// from disk too. Until it was called, what is on disk is held.
func (h *Views) Want(services []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := make(map[string]bool, len(services))
	for _, s := range services {
		wanted[s] = true
	}
	for s := range h.held {
		if !wanted[s] {
			h.dropLocked(s)
		}
	}
	h.addLocked(services)
}

// Add has more services' views held.
func (h *Views) Add(services ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(services)
}

// Drop has services' views held no more; they are removed from disk too.
func (h *Views) Drop(services ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range services {
		h.dropLocked(s)
	}
	signal(h.edit)
	signal(h.dirty)
}

func (h *Views) addLocked(services []string) {
	if h.wanted == nil {
		h.wanted = make(map[string]bool, len(services))
	}
	for _, s := range services {
		if h.wanted[s] = true; h.held[s] == nil {
			h.held[s] = &holding{}
			delete(h.gone, s)
		}
	}
	signal(h.edit)
	signal(h.dirty)
}

func (h *Views) dropLocked(service string) {
	if delete(h.wanted, service); h.held[service] != nil {
		delete(h.held, service)
		h.gone[service] = true
	}
}

// OnChange has f called with each view that is held, and then with each that
// comes into force, one at a time, before it is acknowledged. cancel ends the
// calls, but for one under way.
func (h *Views) OnChange(f func(*view.Service)) (cancel func()) {
	cancel = h.listen(f)
	h.tellAll()
	return cancel
}

// listen is OnChange without what is held already.
func (h *Views) listen(f func(*view.Service)) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = &f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.hook == &f {
			h.hook = nil
		}
	}
}

// tellAll tells who listens of all that is held.
func (h *Views) tellAll() {
	h.mu.Lock()
	names := make([]string, 0, len(h.held))
	for name := range h.held {
		names = append(names, name)
	}
	h.mu.Unlock()
	slices.Sort(names)
	for _, name := range names {
		h.deliver(name)
	}
}

// deliver tells who listens of a service's newest view.
func (h *Views) deliver(service string) {
	h.delivery.Lock()
	defer h.delivery.Unlock()
	x, held, hook := h.newest(service)
	if held == nil {
		return
	}
	if hook != nil {
		h.panics.catch("telling of a view", func() { (*hook)(held.Serving()) })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	x.applied = held
	h.changedLocked()
	signal(h.ack)
	signal(h.dirty)
}

// newest is what is held of a service, and who listens.
func (h *Views) newest(service string) (x *holding, held *view.HeldService, hook *func(*view.Service)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x = h.held[service]; x == nil {
		return nil, nil, nil
	}
	h.wakeLocked(service, x)
	return x, x.held, h.hook
}

// Run subscribes and keeps what comes, until ctx ends. It cannot be called twice
// at a time.
func (h *Views) Run(ctx context.Context) error {
	if !h.running.CompareAndSwap(false, true) {
		return errors.New("cannot run views twice")
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeper sync.WaitGroup
	defer func() { // where what was handed to us panics too: it is called again then
		stop()
		keeper.Wait()
		h.lock.release()
		h.running.Store(false)
	}()
	keeper.Go(func() { h.panics.again(keeping, "keeping views", func() { h.keepLoop(keeping) }) })
	l := loop{addresses: h.addresses, jitter: h.cfg.Jitter, slowest: h.cfg.slowest, session: h.caught, left: h.left, spread: h.spread}
	l.run(ctx)
	return nil
}

// heed checks the epoch that a leader shows, and keeps it.
func (h *Views) heed(e view.Epoch, authenticated bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	marks, foreign, err := h.marks.Heed(e, authenticated)
	if err != nil {
		return err
	}
	if foreign {
		h.noteLocked("views of another incarnation of the plane are followed: " + e.String())
	}
	if h.marks.Last() != e {
		h.heeds++
		signal(h.dirty)
	}
	h.marks = marks
	return nil
}

// take puts a change into force. Of a service that is wanted no more nothing
// is taken.
func (h *Views) take(c view.Change) error {
	told, err := h.hold(c)
	if told == nil {
		return err
	}
	if h.cfg.Passer != nil {
		h.cfg.Passer.Told(told, c)
	}
	h.deliver(c.Service)
	return nil
}

// hold is the view as it was told; nil where nothing was taken.
func (h *Views) hold(c view.Change) (told *view.Service, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.held[c.Service]
	if x == nil {
		return nil, nil
	}
	h.wakeLocked(c.Service, x)
	next, err := x.held.Take(c, h.cfg.Clock().Sub(h.began))
	if err != nil {
		h.refusals++
		h.cfg.event(Event{Kind: ViewRefused, Service: c.Service, Version: c.To, Why: err.Error()})
		return nil, err
	}
	h.cfg.event(Event{Kind: ViewTaken, Service: c.Service, Version: c.To})
	if text := next.Objection(); text != "" && text != x.held.Objection() {
		h.noteLocked("the view of " + c.Service + " is not picked by as it was sent: " + text)
		h.cfg.event(Event{Kind: ViewGuarded, Service: c.Service, Version: c.To, Why: text})
	}
	x.held, x.refused = next, ""
	return next.Told(), nil
}

func (h *Views) changedLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}
