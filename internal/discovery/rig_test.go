package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
	"github.com/fairlead-platform/fairlead/view"
)

// rig is a region in virtual time: a store, a bucket, one host whose instances
// the test sets, and planes that lead one after the other.
type rig struct {
	t      *testing.T
	store  *memory.Store
	bucket *blobs
	hosts  *hosts
	epoch  uint64

	hostsAre     Hosts                // instead of the one host; nil is that
	logger       *slog.Logger         // of the planes; nil discards
	gathered     *prometheus.Registry // of the plane that began last
	replacements int
	applied      int              // documents that the test wrote
	views        Publisher        // of the next plane; nil is nobody
	now          func() time.Time // of the next plane; nil is the clock
	leaving      []string         // slots that the next leader has on record as leaving
}

func inRegion(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, store: memory.Open(memory.Options{}), bucket: &blobs{held: map[string][]byte{}}, hosts: &hosts{changed: make(chan struct{})}}
		defer r.store.Close()
		f(r)
	})
}

// leading is one term.
type leading struct {
	*Plane
	lead *lead
	end  context.CancelFunc
	done chan struct{}

	number uint64 // of the batch that its callers reported last
}

// begin has another plane take the lead; the one before is not told.
func (r *rig) begin() *leading {
	r.t.Helper()
	r.epoch++
	w := store.Write{Key: epochKey, Any: true, Body: fmt.Appendf(nil, "%d", r.epoch)}
	res, err := r.store.Apply(r.t.Context(), store.Apply{ID: fmt.Sprint("epoch ", r.epoch), Writes: []store.Write{w}})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, end := context.WithCancel(r.t.Context())
	r.gathered = prometheus.NewRegistry()
	l := &leading{
		Plane: New(Config{Store: r.store, Bucket: r.bucket, Hosts: r.source(), Logger: r.logger, Metrics: r.gathered, Views: r.views, Now: r.now}),
		lead:  &lead{store: r.store, number: r.epoch, version: res.Sequence, leaving: r.leaving}, end: end, done: make(chan struct{}),
	}
	go func() {
		defer close(l.done)
		l.Run(ctx, l.lead)
	}()
	return l
}

func (r *rig) source() Hosts {
	if r.hostsAre != nil {
		return r.hostsAre
	}
	return r.hosts
}

// peek looks at what a term holds.
func (l *leading) peek(f func(t *term)) {
	t := l.current()
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t)
}

// stop ends the term, as SIGTERM does.
func (l *leading) stop() {
	l.end()
	<-l.done
}

var epochKey = store.Key{Kind: service.KindLeader, Name: "epoch"}

// lead is bound to its epoch by the store.
type lead struct {
	store   store.Store
	number  uint64
	version uint64

	mu      sync.Mutex
	commits int
	refused int
	leaving []string
	ready   string        // the ready path of everything
	deleted bool          // no record of the service is left
	held    chan struct{} // commits wait for its end; nil: they do not
}

// hold has commits wait until they are let go.
func (l *lead) hold() (letGo func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = make(chan struct{})
	return func() { close(l.held) }
}

func (l *lead) Epoch() view.Epoch {
	return view.Epoch{Incarnation: l.store.Incarnation(), Number: l.number}
}

func (l *lead) Commit(ctx context.Context, writes []store.Write) error {
	l.mu.Lock()
	l.commits++
	id := fmt.Sprintf("%d.%d", l.number, l.commits)
	held := l.held
	l.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := l.store.Apply(ctx, store.Apply{ID: id, Checks: []store.Check{{Key: epochKey, Version: l.version}}, Writes: writes})
	if err != nil {
		l.mu.Lock()
		l.refused++
		l.mu.Unlock()
	}
	return err
}

func (l *lead) Routes() ([]view.Route, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deleted {
		return nil, 2
	}
	return []view.Route{{Service: "s", Splits: []view.Split{{Revision: "s-00001", Percent: 100, Group: "s-00001", Allowed: []string{"s-00001"}}}}}, 1
}

func (l *lead) RoutesChanged() <-chan struct{} { return nil }

func (l *lead) Sequence() uint64 {
	_, at, err := l.store.List(context.Background(), service.KindContract)
	if err != nil {
		return 0
	}
	return at
}

func (l *lead) Knows(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return name == "s" && !l.deleted
}

func (l *lead) Lives(name string) bool { return l.Knows(name) }

func (l *lead) Leaving(string) []string { return l.leaving }

func (l *lead) Retired(string) bool { return false }

func (l *lead) setReady(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = path
}

func (l *lead) ReadyPath(string, string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready
}

// hosts is one host.
type hosts struct {
	mu      sync.Mutex
	all     []service.Instance
	silent  time.Duration
	away    bool // it was not heard since the leader started
	changed chan struct{}
	answers uint64   // how often it told all that it runs
	ended   []string // instances whose end it told
	left    bool
}

func (h *hosts) States() []service.HostState {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away {
		return nil
	}
	return []service.HostState{{Host: service.Host{Name: "a", Zone: "z"}, Connected: h.silent == 0, Reported: true, Silent: h.silent, Instances: slices.Clone(h.all), Answers: h.answers, Ended: h.ended, Left: h.left}}
}

func (h *hosts) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *hosts) edit(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

// run has the host run instances 1 to n.
func (h *hosts) run(n int) {
	h.edit(func() {
		h.all = nil
		for i := range n {
			h.all = append(h.all, service.Instance{
				ID: fmt.Sprint("i", i+1), Service: "s", Revision: "s-00001", Slot: fmt.Sprint("s-00001.", i), Host: "a", Zone: "z",
				Address: "127.0.0.1:1", State: service.InstanceLive,
			})
		}
	})
}

func (h *hosts) set(id string, s service.InstanceState) {
	h.edit(func() {
		for i := range h.all {
			if h.all[i].ID == id {
				h.all[i].State = s
			}
		}
	})
}

// verdicts as one line, e.g. "i1 eligible serving, i2 …".
func (l *leading) verdicts() string {
	all, _ := l.Standings("s")
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%s %s %s", s.ID, s.Verdict, s.Rule))
	}
	return strings.Join(out, ", ")
}

func (r *rig) expect(l *leading, want string) {
	r.t.Helper()
	synctest.Wait()
	if got := l.verdicts(); got != want {
		r.t.Fatalf("verdicts are\n%s, want\n%s", got, want)
	}
}

// history is what is recorded, oldest first.
func (r *rig) history() (all []Record) {
	r.t.Helper()
	docs, _, err := r.store.List(context.Background(), service.KindTransition)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range docs {
		var x Record
		if err := json.Unmarshal(d.Body, &x); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

// blobs is a bucket in memory; broken, it fails.
type blobs struct {
	hangs  atomic.Bool // until who writes gives up
	mu     sync.Mutex
	held   map[string][]byte
	broken bool
}

var errBroken = errors.New("the bucket is out of reach")

func (b *blobs) use(f func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return errBroken
	}
	return f()
}

func (b *blobs) breaks(yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = yes
}

func (b *blobs) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.held))
}

func (b *blobs) Put(ctx context.Context, name string, r io.Reader, _ bool) (i bucket.Info, err error) {
	if b.hangs.Load() {
		<-ctx.Done()
		return i, ctx.Err()
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return i, err
	}
	return i, b.use(func() error { b.held[name] = body; return nil })
}

func (b *blobs) Open(_ context.Context, name string) (r io.ReadCloser, i bucket.Info, err error) {
	err = b.use(func() error {
		body, ok := b.held[name]
		if !ok {
			return bucket.ErrNotFound
		}
		r = io.NopCloser(bytes.NewReader(body))
		return nil
	})
	return r, i, err
}

func (b *blobs) Stat(context.Context, string) (i bucket.Info, err error) {
	return i, bucket.ErrNotFound
}

func (b *blobs) List(_ context.Context, prefix string) (all []bucket.Info, err error) {
	err = b.use(func() error {
		for _, name := range slices.Sorted(maps.Keys(b.held)) {
			if strings.HasPrefix(name, prefix) {
				all = append(all, bucket.Info{Name: name, Size: int64(len(b.held[name]))})
			}
		}
		return nil
	})
	return all, err
}

func (b *blobs) Delete(_ context.Context, name string) error {
	return b.use(func() error { delete(b.held, name); return nil })
}
