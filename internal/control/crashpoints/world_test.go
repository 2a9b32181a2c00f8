package crashpoints_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	name = "hello"
	warm = 20 * time.Second
	// readyAfter is longer than a request waits for a lease, so that what is
	// routed to before it is ready is noticed.
	readyAfter = 1200 * time.Millisecond
)

// world is a region in virtual time: one service, two gateways, two hosts, and
// controllers that die and are replaced.
type world struct {
	t        *testing.T
	store    store.Store
	hosts    *hosttest.Sim
	gateways *gatewaytest.Sim
	caller   *gatewaytest.Caller // whose requests come to gateways
	callers  *callers            // who pick by views
	points   *crashpoints.Points
	writes   int
	pause    time.Duration // between a death and the next controller
	lives    int
	judged   bool            // the discovery plane runs beside the controller
	cut      bool            // gateway g2 is cut off
	unheard  map[string]bool // :: gateway → its reports are not what it does
	now      *living
	log      *record
	broken   record // what the oracle has seen go wrong on the way
	over     chan struct{}
	watching sync.WaitGroup
	read     uint64 // sequence of what was read last
	said     facts  // as of then
}

// record keeps lines until they are wanted.
type record struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.String()
}

// living is one controller.
type living struct {
	*control.Control
	life   *crashpoints.Life
	port   *gatewaytest.SimPort
	cancel context.CancelFunc
	done   chan struct{}
}

// newWorld makes a region whose first controller leads. It is to be ended.
func newWorld(t *testing.T, s store.Store, points *crashpoints.Points, o operation) *world {
	w := &world{
		t: t, store: s, points: points, judged: o.judged, log: &record{}, over: make(chan struct{}),
		hosts:    hosttest.NewSim(service.Host{Name: "a", Zone: "z1"}, service.Host{Name: "b", Zone: "z2"}),
		gateways: gatewaytest.NewSim("g1", "g2"),
	}
	w.caller = w.gateways.NewCaller(gatewaytest.CallerConfig{
		Service: name, Wait: time.Second, Exclusive: o.exclusive, Unserved: func() bool { return o.unserved },
		Wrong: func(what string) { fmt.Fprintf(&w.broken, "at %s: %s\n", time.Now().Format(time.StampMilli), what) },
	})
	w.callers = newCallers(w)
	w.hosts.Poll(w.callers)
	w.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{ReadyAfter: readyAfter} })
	w.start()
	return w
}

func (w *world) end() {
	w.points.End()
	w.points.Close()
	close(w.over)
	w.watching.Wait()
	w.now.stop()
	w.gateways.Close()
	w.store.Close()
}

func (l *living) stop() {
	l.cancel()
	<-l.done
	l.port.Close()
}

func (w *world) start() {
	ctx, cancel := context.WithCancel(w.t.Context())
	l := &living{cancel: cancel, done: make(chan struct{})}
	l.life = w.points.Life(w.lives == 0, cancel)
	w.lives++
	made := make(chan struct{})
	l.port = w.gateways.Attach(gatewaytest.PortConfig{
		Admit: func(ctx context.Context, g service.GatewayState) (view.Epoch, error) {
			<-made
			return l.AdmitGateway(ctx, g)
		},
		Goodbye: func(ctx context.Context, name string) error { return l.GatewayGoodbye(ctx, name) },
	})
	out := io.Writer(w.log)
	docs, hosts := l.life.Store(&audited{w.store, w}), l.life.Hosts(&guarded{w.hosts, w})
	cfg := control.Config{
		Store: docs, Hosts: hosts, Gateways: l.life.Gateways(l.port),
		Name: fmt.Sprintf("c%d", w.lives), LockIsLease: true, Warm: warm,
		Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	beside := func(context.Context, control.Lead) {}
	if w.judged {
		// What the plane reads is no point; what it writes goes by the controller.
		plane := discovery.New(discovery.Config{Store: w.store, Bucket: nowhere{}, Hosts: hosts, Views: &publisher{c: w.callers}})
		cfg.Callers, cfg.Verdicts, beside = asking{plane, w.callers}, believed{plane}, func(ctx context.Context, l control.Lead) { plane.Run(ctx, l) }
	}
	cfg.Beside = func(ctx context.Context, l control.Lead) {
		w.hosts.Welcome(l.Epoch())
		beside(ctx, l)
	}
	l.Control = control.New(cfg)
	close(made)
	go func() {
		defer close(l.done)
		_ = l.Run(ctx) // returns nil
	}()
	w.now = l
}

// believed lets a controller see what its discovery plane believes.
type believed struct{ *discovery.Plane }

func (b believed) Of(service, instance string) control.Verdict {
	r := b.Readiness(service, instance)
	return control.Verdict{Ready: r.Ready, Before: r.Before, Why: r.Why}
}

// nowhere is a bucket out of reach: evidence is lost with its controller.
type nowhere struct{}

var errNowhere = errors.New("the bucket is out of reach")

func (nowhere) Put(context.Context, string, io.Reader, bool) (bucket.Info, error) {
	return bucket.Info{}, errNowhere
}

func (nowhere) Open(context.Context, string) (io.ReadCloser, bucket.Info, error) {
	return nil, bucket.Info{}, errNowhere
}

func (nowhere) Stat(context.Context, string) (bucket.Info, error) { return bucket.Info{}, errNowhere }

func (nowhere) List(context.Context, string) ([]bucket.Info, error) { return nil, errNowhere }

func (nowhere) Delete(context.Context, string) error { return errNowhere }

// revive starts a controller in the place of one that has died.
func (w *world) revive() {
	select {
	case <-w.now.done:
	default:
		return
	}
	w.now.port.Close()
	time.Sleep(w.pause)
	w.start()
}

// desired edits the desired document as the API would, and returns it.
func (w *world) desired(edit func(d *service.Desired)) {
	k := store.Key{Kind: service.KindDesired, Name: name}
	doc, _ := w.store.Get(w.t.Context(), k)
	d := service.Desired{Service: name, Instances: 1}
	if doc.Version != 0 {
		w.decode(doc, &d)
	}
	generation := d.Generation
	edit(&d)
	d.Generation = generation + 1
	body, err := json.Marshal(d)
	if err != nil {
		w.t.Fatal(err)
	}
	w.writes++
	_, err = w.store.Apply(w.t.Context(), store.Apply{ID: fmt.Sprintf("test-%d", w.writes), Writes: []store.Write{{Key: k, Expect: doc.Version, Body: body}}})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) release(release string) {
	w.desired(func(d *service.Desired) { d.Template.Command = []string{release} })
}

func (w *world) decode(d store.Document, v any) {
	if err := json.Unmarshal(d.Body, v); err != nil {
		w.t.Fatalf("%s: %v", d.Key, err)
	}
}

// facts are what the store says, read.
type facts struct {
	desired   *service.Desired
	catalog   service.Catalog
	routes    service.Routes
	revisions map[string]service.Revision
	sagas     []saga.Record
	left      int // documents of the service that a deletion has to erase
}

func (w *world) facts() facts {
	docs, sequence, err := w.store.List(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	if sequence == w.read && sequence > 0 {
		return w.said
	}
	f := facts{revisions: map[string]service.Revision{}}
	for _, d := range docs {
		switch d.Kind {
		case service.KindDesired:
			f.desired = &service.Desired{}
			w.decode(d, f.desired)
		case service.KindCatalog:
			w.decode(d, &f.catalog)
		case service.KindRoutes:
			w.decode(d, &f.routes)
		case service.KindRevision:
			var r service.Revision
			w.decode(d, &r)
			f.revisions[d.Name] = r
		case service.KindSaga:
			var r saga.Record
			w.decode(d, &r)
			f.sagas = append(f.sagas, r)
		}
		switch d.Kind {
		case service.KindGateway, service.KindHost, service.KindLeader, service.KindRoutes, service.KindHandles:
		case service.KindTransition: // stays until it is sealed into the bucket
		default:
			f.left++
		}
	}
	w.read, w.said = sequence, f
	return f
}

// settles waits, in virtual time, until nothing is wrong any more, and says
// what is if that does not come. Controllers that die are replaced.
func (w *world) settles(limit time.Duration, wrong func() string) string {
	end := time.Now().Add(limit)
	for {
		synctest.Wait()
		w.revive()
		why := wrong()
		if why == "" || !time.Now().Before(end) {
			return why
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (w *world) must(what, why string) {
	if why != "" {
		w.t.Fatalf("%s: %s\n%s", what, why, w.state())
	}
}

func (w *world) state() string {
	docs, _, _ := w.store.List(context.Background(), "")
	var b strings.Builder
	for _, d := range docs {
		if d.Kind != service.KindEvent && d.Kind != service.KindLeader {
			fmt.Fprintf(&b, "%s@%d %s\n", d.Key, d.Version, d.Body)
		}
	}
	for _, i := range w.hosts.Running() {
		fmt.Fprintf(&b, "runs %+v\n", i)
	}
	for _, p := range w.points.Seen() {
		fmt.Fprintln(&b, "point", p.Name())
	}
	fmt.Fprintf(&b, "hit: %q\nneeds: %q\n%s", w.points.Hit(), w.now.NeedsOperator(name), w.log)
	return b.String()
}
