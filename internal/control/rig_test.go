package control_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
	"github.com/fairlead-platform/fairlead/view"
)

// rig is a region in memory and in virtual time: a store, hosts, gateways, and
// controllers that come and go.
type rig struct {
	t        *testing.T
	disk     *memory.Backend
	store    store.Store // the operator's own handle
	hosts    *hosttest.Sim
	gateways *gatewaytest.Sim
	runs     []*running
	over     chan struct{} // closed when the test has ended
	minted   int
}

// running is one controller.
type running struct {
	*control.Control
	port   *gatewaytest.SimPort
	store  store.Store
	cancel context.CancelFunc
	done   chan struct{}
	dead   chan struct{} // closed: its ports refuse
}

// inRegion runs f in a bubble of virtual time with gateways g1… and hosts a, b.
func inRegion(t *testing.T, gateways int, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range gateways {
			names = append(names, fmt.Sprintf("g%d", i+1))
		}
		r := &rig{
			t: t, disk: memory.New(memory.Options{}),
			hosts:    hosttest.NewSim(service.Host{Name: "a", Zone: "z1"}, service.Host{Name: "b", Zone: "z2"}),
			gateways: gatewaytest.NewSim(names...), over: make(chan struct{}),
		}
		defer close(r.over)
		r.store = r.disk.Open()
		defer r.gateways.Close()
		defer func() {
			for _, c := range r.runs {
				c.stop()
			}
		}()
		f(r)
	})
}

// options change how a controller is made.
type options struct {
	standby bool // contends for the lease; otherwise the store is its own
	wrap    func(store.Store) store.Store
	dead    chan struct{}
	warm    time.Duration // zero keeps nothing warm
	edit    func(*control.Config)
}

func (r *rig) start(o options) *running {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	s := store.Store(r.disk.Open())
	c := &running{cancel: cancel, done: make(chan struct{}), dead: o.dead}
	if c.dead == nil {
		c.dead = make(chan struct{})
	}
	if o.wrap != nil {
		s = o.wrap(s)
	}
	c.store = s
	made := make(chan struct{})
	defer close(made)
	c.port = r.gateways.Attach(gatewaytest.PortConfig{
		Admit: func(ctx context.Context, g service.GatewayState) (view.Epoch, error) {
			<-made
			return c.AdmitGateway(ctx, g)
		},
		Goodbye: func(ctx context.Context, name string) error { return c.GatewayGoodbye(ctx, name) },
	})
	cfg := control.Config{
		Store: s, Hosts: &mortalHosts{r.hosts, c.dead}, Gateways: c.port,
		Name: fmt.Sprintf("c%d", len(r.runs)), LockIsLease: !o.standby, Logger: testLog(r.t),
		Warm: cmp.Or(o.warm, -1),
	}
	if o.edit != nil {
		o.edit(&cfg)
	}
	c.Control = control.New(cfg)
	go func() {
		defer close(c.done)
		if err := c.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}()
	r.runs = append(r.runs, c)
	return c
}

// stop ends a controller as SIGTERM does.
func (c *running) stop() {
	c.cancel()
	<-c.done
	c.port.Close()
	c.store.Close()
}

// mortalHosts refuse everything once their controller is dead.
type mortalHosts struct {
	*hosttest.Sim
	dead chan struct{}
}

func (m *mortalHosts) command(do func() error) error {
	select {
	case <-m.dead:
		return errDead
	default:
		return do()
	}
}

func (m *mortalHosts) Assign(ctx context.Context, e view.Epoch, host string, a service.Assignment) error {
	return m.command(func() error { return m.Sim.Assign(ctx, e, host, a) })
}

func (m *mortalHosts) Prepare(ctx context.Context, e view.Epoch, host, revision string, t service.Template) error {
	return m.command(func() error { return m.Sim.Prepare(ctx, e, host, revision, t) })
}

func (m *mortalHosts) Stop(ctx context.Context, e view.Epoch, host string, s service.Stop) error {
	return m.command(func() error { return m.Sim.Stop(ctx, e, host, s) })
}

func (m *mortalHosts) Release(ctx context.Context, e view.Epoch, host string, r service.Release) error {
	return m.command(func() error { return m.Sim.Release(ctx, e, host, r) })
}

// logs keeps what a test logs, shown when it fails.
type logs struct {
	mu sync.Mutex
	t  *testing.T
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprint(l.t.Output(), string(b))
	return len(b), nil
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(&logs{t: t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// write edits the service's desired document as the API would.
func (r *rig) write(name string, edit func(d *service.Desired)) service.Desired {
	r.t.Helper()
	doc, _ := r.store.Get(r.t.Context(), store.Key{Kind: service.KindDesired, Name: name})
	d := service.Desired{Service: name, Instances: 1, Template: service.Template{Command: []string{"run"}}}
	if doc.Version != 0 {
		decode(r.t, doc, &d)
	}
	if d.Deleted {
		d.Deleted = false
	}
	d.Generation++
	edit(&d)
	r.put(store.Key{Kind: service.KindDesired, Name: name}, doc.Version, d)
	return d
}

// deploy asks for a release of the service, told apart by its command.
func (r *rig) deploy(name, release string) service.Desired {
	r.t.Helper()
	return r.write(name, func(d *service.Desired) { d.Template.Command = []string{release} })
}

func (r *rig) put(k store.Key, version uint64, v any) {
	r.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		r.t.Fatal(err)
	}
	r.raw(k, version, b)
}

// versioned is a record bound to the version that was read.
type versioned struct {
	version uint64
	value   any
}

// puts writes several records in one commit.
func (r *rig) puts(docs map[store.Key]versioned) {
	r.t.Helper()
	r.minted++
	a := store.Apply{ID: fmt.Sprintf("test-%d", r.minted)}
	for k, d := range docs {
		b, err := json.Marshal(d.value)
		if err != nil {
			r.t.Fatal(err)
		}
		a.Writes = append(a.Writes, store.Write{Key: k, Expect: d.version, Body: b})
	}
	if _, err := r.store.Apply(r.t.Context(), a); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) raw(k store.Key, version uint64, body []byte) {
	r.t.Helper()
	r.minted++
	_, err := r.store.Apply(r.t.Context(), store.Apply{ID: fmt.Sprintf("test-%d", r.minted), Writes: []store.Write{{Key: k, Expect: version, Body: body}}})
	if err != nil {
		r.t.Fatal(err)
	}
}

func decode(t *testing.T, d store.Document, v any) {
	t.Helper()
	if err := json.Unmarshal(d.Body, v); err != nil {
		t.Fatalf("%s: %v", d.Key, err)
	}
}

func get[T any](r *rig, kind, name string) (v T, found bool) {
	r.t.Helper()
	d, err := r.store.Get(r.t.Context(), store.Key{Kind: kind, Name: name})
	if err != nil {
		return v, false
	}
	decode(r.t, d, &v)
	return v, true
}

func list[T any](r *rig, kind, service string) []T {
	r.t.Helper()
	docs, _, err := r.store.List(r.t.Context(), kind)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []T
	for _, d := range docs {
		if service == "" || strings.HasPrefix(d.Name, service+".") || strings.HasPrefix(d.Name, service+"-") {
			var v T
			decode(r.t, d, &v)
			out = append(out, v)
		}
	}
	return out
}

func (r *rig) catalog(name string) service.Catalog {
	c, _ := get[service.Catalog](r, service.KindCatalog, name)
	return c
}

// deploySaga is the newest deploy of the service.
func (r *rig) deploySaga(name string) saga.Record {
	var newest saga.Record
	for _, s := range list[saga.Record](r, service.KindSaga, name) {
		if s.Kind == service.WorkDeploy && !s.Started.Before(newest.Started) {
			newest = s
		}
	}
	return newest
}

// within waits in virtual time until f holds.
func (r *rig) within(d time.Duration, what string, f func() bool) {
	r.t.Helper()
	end := time.Now().Add(d)
	for {
		synctest.Wait()
		if f() {
			return
		}
		if !time.Now().Before(end) {
			r.t.Fatalf("not within %s: %s\n%s", d, what, r.state())
		}
		time.Sleep(min(max(d/1000, 20*time.Millisecond), 200*time.Millisecond))
	}
}

// serves waits until the release's generation is applied, and everything agrees.
func (r *rig) serves(d time.Duration, name, revision string) {
	r.t.Helper()
	r.within(d, revision+" serves "+name, func() bool {
		return r.catalog(name).Latest == revision && r.disagreement(name) == ""
	})
}

// disagreement says where gateways, routes, catalog and what answers differ.
func (r *rig) disagreement(name string) string {
	c := r.catalog(name)
	routes, _ := get[service.Routes](r, service.KindRoutes, name)
	if len(c.Traffic) == 0 {
		return "the catalog has no traffic"
	}
	want := c.Traffic[0].Revision
	if len(routes.Plan.Splits) == 0 || routes.Plan.Splits[0].Revision != want {
		return "routes and catalog differ"
	}
	for _, g := range []string{"g1", "g2"} {
		gw := r.gateways.Gateway(g)
		if gw == nil || gw.Table() == nil {
			continue
		}
		if route, _ := gw.Table().Route(name); len(route.Splits) == 0 || route.Splits[0].Revision != want {
			return "gateway " + g + " routes elsewhere"
		}
	}
	if len(r.live(want)) == 0 {
		return want + " does not answer"
	}
	return ""
}

// live are the live instances of a revision on all hosts, connected or not.
func (r *rig) live(revision string) []service.Instance {
	var out []service.Instance
	for _, h := range r.hosts.States() {
		for _, i := range h.Instances {
			if i.Revision == revision && i.State == service.InstanceLive {
				out = append(out, i)
			}
		}
	}
	return out
}

// answered says whether some gateway routes the service to a revision with a live instance.
func (r *rig) answered(name, gateway string) bool {
	t := r.gateways.Gateway(gateway).Table()
	if t == nil {
		return false
	}
	route, _ := t.Route(name)
	return len(route.Splits) > 0 && !slices.ContainsFunc(route.Splits, func(s view.Split) bool {
		return s.Percent > 0 && !s.Hold && len(r.live(s.Revision)) == 0
	})
}

// watched fails the test when, from now until the returned function is called,
// there is a moment at which the service is not answered through the gateway.
func (r *rig) watched(name, gateway string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		began, step := time.Now(), 10*time.Millisecond
		for {
			if time.Since(began) > 20*time.Second {
				step = 250 * time.Millisecond
			}
			if !r.answered(name, gateway) {
				r.t.Errorf("nothing answers %s through %s at %s", name, gateway, time.Now().Format(time.StampMilli))
				return
			}
			select {
			case <-done:
				return
			case <-r.over:
				return
			case <-time.After(step):
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (r *rig) state() string {
	docs, _, _ := r.store.List(r.t.Context(), "")
	var b strings.Builder
	for _, d := range docs {
		if d.Kind != service.KindEvent && d.Kind != service.KindLeader {
			fmt.Fprintf(&b, "%s@%d %s\n", d.Key, d.Version, d.Body)
		}
	}
	for _, h := range r.hosts.States() {
		fmt.Fprintf(&b, "host %s connected=%v %+v\n", h.Name, h.Connected, h.Instances)
	}
	return b.String()
}

// runs says that the assignment is of the release.
func runs(a service.Assignment, release string) bool {
	return len(a.Template.Command) > 0 && a.Template.Command[0] == release
}
