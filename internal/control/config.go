package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// Config of a Control. Store, Hosts and Gateways are required.
type Config struct {
	Store    store.Store
	Hosts    Hosts
	Gateways Gateways
	// Callers pick instances by views; nil means that nobody does.
	Callers Callers
	// Verdicts of instances, which new ones wait for; nil is none.
	Verdicts Verdicts
	// Name of this process, shown as the holder of the lease.
	Name string
	// Dwell is how long an instance must be live without a break to be ready; zero means 3 s.
	Dwell time.Duration
	// Warm is for how long the revision that led the traffic before is kept
	// running, so that going back is one write; zero means 10 min, negative none.
	Warm time.Duration
	// Term is how long a lease unseen to be renewed stands; zero means 5 s.
	Term time.Duration
	// LockIsLease says that having opened the store proves that nobody else leads.
	LockIsLease bool
	// DigestKey keys the digests of templates; empty means the store's incarnation.
	DigestKey string
	// SetGateways is given the known gateways, and the epoch that they are known
	// under, whenever either changes; hosts dial them. It must not block. Nil is nobody.
	SetGateways func(view.Epoch, []service.Gateway)
	// Address at which others reach this control; recorded with the lead, so
	// that who stands by can name it. May be empty.
	Address string
	// Turned is told of each change of leading, in order: true before anything
	// is offered or commanded, false once nothing is to be any more. Leading
	// begins and ends when it returns. Nil is nobody.
	Turned func(leading bool)
	// Beside runs beside the workers while this control leads, and is given
	// what a leader may do. It returns when ctx ends, before the lead is given
	// up. Nil is nothing.
	Beside func(ctx context.Context, l Lead)
	// Logger; nil discards.
	Logger *slog.Logger
	// Metrics registry; nil registers nowhere.
	Metrics *prometheus.Registry
	// Rand is the source of random parts of identities; nil means crypto/rand.
	Rand io.Reader
}

// Intervals that are the same everywhere.
const (
	passEvery     = 2 * time.Second
	memberEvery   = time.Second
	recordEvery   = 10 * time.Second
	commandWait   = 15 * time.Second
	prepareWait   = 2 * time.Minute
	publishWait   = 30 * time.Second
	absenceRule   = time.Hour
	hostGone      = 30 * time.Second
	pollsFor      = 10 * time.Second
	hostPatience  = 10 * time.Second
	reportWait    = 5 * time.Second
	doubtFor      = 5 * time.Second
	defaultDwell  = 3 * time.Second
	defaultTerm   = 5 * time.Second
	defaultWarm   = 10 * time.Minute
	renewEvery    = time.Second
	releaseWait   = time.Second
	settleEvery   = 100 * time.Millisecond
	announceLook  = 5 * time.Millisecond
	firstPause    = time.Second
	longestPause  = 30 * time.Second
	eraseAtOnce   = 100
	retryOfUnsure = 100 * time.Millisecond
)

// Control leads a region or stands by. Make it with [New], run it with Run.
type Control struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics

	ids struct {
		sync.Mutex
		entropy io.Reader
	}

	mu     sync.Mutex
	term   *term             // nil while standing by
	turned chan struct{}     // closed when term changes
	other  Leader            // as last seen while standing by; zero while leading
	since  time.Time         // when its lease was first seen as it is
	alarms map[string]string // :: what → alarm in words
	absent chan struct{}     // closed when an absence is over; nil: there is none
}

// New returns a Control that does nothing until it is run.
func New(cfg Config) *Control {
	if cfg.Dwell == 0 {
		cfg.Dwell = defaultDwell
	}
	if cfg.Warm == 0 {
		cfg.Warm = defaultWarm
	}
	if cfg.Term == 0 {
		cfg.Term = defaultTerm
	}
	if cfg.DigestKey == "" {
		cfg.DigestKey = cfg.Store.Incarnation()
	}
	if cfg.SetGateways == nil {
		cfg.SetGateways = func(view.Epoch, []service.Gateway) {}
	}
	if cfg.Turned == nil {
		cfg.Turned = func(bool) {}
	}
	if cfg.Verdicts == nil {
		cfg.Verdicts = trusting{}
	}
	if cfg.Callers == nil {
		cfg.Callers = nobodyCalls{}
	}
	if cfg.Beside == nil {
		cfg.Beside = func(context.Context, Lead) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	c := &Control{cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Metrics), turned: make(chan struct{}), alarms: map[string]string{}}
	c.ids.entropy = ulid.Monotonic(cfg.Rand, 0)
	return c
}

// Run stands by until it leads, leads until it does not, and so on until ctx
// ends. It returns nil then; every goroutine that it started has ended.
func (c *Control) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		lease, err := c.campaign(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.log.Warn("cannot take the lead", "error", err)
			}
			pause(ctx, c.cfg.Term/5)
			continue
		}
		if err := c.leadOn(ctx, lease); err != nil && ctx.Err() == nil {
			c.log.Warn("leads no more", "error", err)
			pause(ctx, c.cfg.Term/5)
		}
	}
	return nil
}

// leadOn leads, also after it stayed away for a drill.
func (c *Control) leadOn(ctx context.Context, l lease) error {
	for {
		t, err := c.lead(ctx, l)
		if !errors.Is(err, errOutage) || ctx.Err() != nil {
			return err
		}
		c.log.Warn("stays away for a drill")
		if l, err = c.stayAway(ctx, t); err != nil {
			t.release(ctx)
			return err
		}
		c.log.Info("is back from a drill")
	}
}

// Leading says whether this Control leads.
func (c *Control) Leading() bool { return c.current() != nil }

// Leader is who leads, as one that stands by sees it.
type Leader struct {
	Holder  string // name of its process; empty where nobody was seen
	Address string // where its API is reached; may be empty
	// Quiet is for how long its lease was not seen to change, also where the
	// store could not be asked: after a term of looks the lead is taken.
	Quiet time.Duration
}

// Leader that is seen while standing by; zero while this Control leads.
func (c *Control) Leader() Leader {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.other
	if l.Holder != "" {
		l.Quiet = time.Since(c.since)
	}
	return l
}

func (c *Control) setOther(l Leader, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.other, c.since = l, since
}

// Epoch that it leads in; zero when it does not.
func (c *Control) Epoch() view.Epoch {
	if t := c.current(); t != nil {
		return t.led.Epoch()
	}
	return view.Epoch{}
}

// Alarms in force, in order.
func (c *Control) Alarms() []string {
	var out []string
	if t := c.current(); t != nil {
		out = slices.Collect(maps.Values(t.world().PoorHosts()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.alarms {
		out = append(out, a)
	}
	slices.Sort(out)
	return out
}

// NeedsOperator says what only a person can settle about the service; empty when nothing.
func (c *Control) NeedsOperator(name string) string {
	if t := c.current(); t != nil {
		return t.needsOperator(name)
	}
	return ""
}

// RetryAt is when a saga that waits is tried again, by this leader's own clock;
// zero where it knows of no wait.
func (c *Control) RetryAt(id string) time.Time {
	if t := c.current(); t != nil {
		return t.clocks.until(id)
	}
	return time.Time{}
}

func (c *Control) current() *term {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}

func (c *Control) setTerm(t *term) {
	c.mu.Lock()
	c.term, c.other = t, Leader{}
	close(c.turned)
	c.turned = make(chan struct{})
	if t == nil {
		// What a leader saw is not its any more; that the store is older than
		// the world stays said.
		maps.DeleteFunc(c.alarms, func(what, _ string) bool { return what != alarmEpoch })
	}
	c.mu.Unlock()
	c.metrics.leading(t != nil)
}

// leads returns the term. Where nobody else can lead it waits a little for the
// lead to be taken, so that who comes first at a start need not come again.
func (c *Control) leads(ctx context.Context) (*term, error) {
	limit := time.NewTimer(firstPause)
	defer limit.Stop()
	for {
		c.mu.Lock()
		t, turned := c.term, c.turned
		c.mu.Unlock()
		if t != nil {
			return t, nil
		}
		if !c.cfg.LockIsLease {
			return nil, c.notLeading()
		}
		select {
		case <-turned:
		case <-limit.C:
			return nil, c.notLeading()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// alarmEpoch says that the store is older than the world.
const alarmEpoch = "epoch"

// alarm raises what with its words, or ends it when they are empty.
func (c *Control) alarm(what, words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if words == "" {
		if c.alarms[what] != "" {
			c.log.Info("alarm ended", "what", what)
		}
		delete(c.alarms, what)
		return
	}
	if c.alarms[what] != words {
		c.log.Error("alarm", "what", what, "words", words)
	}
	c.alarms[what] = words
}

// alarmed are the words of an alarm; empty where it is not raised.
func (c *Control) alarmed(what string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alarms[what]
}

// mint returns an identity: an instant plus random, in order within this process.
func (c *Control) mint() string {
	c.ids.Lock()
	defer c.ids.Unlock()
	id, err := ulid.New(ulid.Timestamp(time.Now()), c.ids.entropy)
	if errors.Is(err, ulid.ErrMonotonicOverflow) {
		c.ids.entropy = ulid.Monotonic(c.cfg.Rand, 0)
		id, err = ulid.New(ulid.Timestamp(time.Now()), c.ids.entropy)
	}
	if err != nil { // the source of randomness is broken: nothing can be told apart any more
		panic("control: cannot mint an identity: " + err.Error())
	}
	return id.String()
}

// NotLeading refuses who comes to a control that stands by.
type NotLeading struct{ leader Leader }

func (c *Control) notLeading() error { return &NotLeading{c.Leader()} }

func (e *NotLeading) Error() string {
	if e.leader.Holder == "" {
		return "this control does not lead"
	}
	return fmt.Sprintf("this control does not lead: %s does, at %s", e.leader.Holder, e.leader.Address)
}

// Leader is the address of who leads; may be empty.
func (e *NotLeading) Leader() string { return e.leader.Address }

// Unwrap makes it fault.Unavailable.
func (e *NotLeading) Unwrap() error { return fault.Unavailable }

// pause waits for d or for ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
