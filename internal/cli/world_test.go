package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/bucket/dir"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
	"github.com/fairlead-platform/fairlead/internal/surface/httpapi"
	surface "github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"fairlead": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			os.Exit(Run(ctx, Env{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Roles: noRoles{}}))
		},
	})
}

// noRoles stands where the daemon would: these tests are of the API's client.
type noRoles struct{}

var errNoRoles = errors.New("no role runs in this test")

func (noRoles) Up(context.Context, UpOptions) error           { return errNoRoles }
func (noRoles) Control(context.Context, ControlOptions) error { return errNoRoles }
func (noRoles) Gateway(context.Context, GatewayOptions) error { return errNoRoles }
func (noRoles) Host(context.Context, HostOptions) error       { return errNoRoles }
func (noRoles) Prober(context.Context, ProberOptions) error   { return errNoRoles }
func (noRoles) Agent(context.Context, AgentOptions) error     { return errNoRoles }
func (noRoles) Relay(context.Context, RelayOptions) error     { return errNoRoles }

// TestScripts runs testdata/*.txtar: each is a session at a terminal against a
// real API over a memory store. The command `plane` moves the store as the
// control role would.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			p, err := newPlane(e.Getenv("WORK"))
			if err != nil {
				return err
			}
			e.Values["plane"] = p
			e.Setenv("FAIRLEAD_DATA", p.data)
			e.Setenv("NO_COLOR", "1")
			e.Setenv("FREE", freeAddress(t))
			e.Setenv("HOME", e.Getenv("WORK"))
			e.Defer(func() {
				if err := p.close(); err != nil {
					t.Error(err)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"plane": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Value("plane").(*plane).do(args))
			},
			// code checks the exit code of the command that follows.
			"code": func(ts *testscript.TestScript, _ bool, args []string) {
				err := ts.Exec("fairlead", args[1:]...)
				got := "0"
				if err != nil {
					got = strings.TrimPrefix(err.Error(), "exit status ")
				}
				if got != args[0] {
					ts.Fatalf("exit code %s, expected %s", got, args[0])
				}
			},
		},
	})
}

// view of a service of which one zone's health is disregarded.
func (p *plane) view(name string, allowed []string) *view.Service {
	e := p.Epoch()
	return &view.Service{
		Name: name, Epoch: e, Version: view.Version{Incarnation: e.Incarnation, Epoch: e.Number, Counter: 7}, Callers: allowed, AnyZone: len(allowed) > 0,
		Shares: []view.Share{{Percent: 90, Revisions: []string{"payments-00001"}}, {Percent: 10, Revisions: []string{"payments-00002"}}},
		Tags:   []view.Tag{{Name: "next", Revisions: []string{"payments-00002"}}},
		Endpoints: []view.Endpoint{
			{ID: "i1", Revision: name + "-00001", Address: "10.0.0.7:20001", Zone: "a", Weight: 1000, Verdict: view.Eligible},
			{ID: "i2", Revision: name + "-00001", Address: "10.0.0.8:20001", Zone: "b", Weight: 0, Verdict: view.Ineligible, HealthUnknown: true},
		},
		Marks: []view.ZoneMark{{Group: name + "-00001", Zone: "a", DegradedConfidence: true, Counted: 4, In: 1}},
	}
}

// freeAddress is one at which nobody listens.
func freeAddress(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// plane is a control plane whose leader is the script.
type plane struct {
	data      string
	store     *memory.Store
	bucket    *dir.Bucket
	authority *identity.Authority
	views     *surface.Server
	api       *httpapi.API
	server    *http.Server
	served    chan error

	mu          sync.Mutex
	instances   []service.Instance
	lines       []service.LogLine
	lag         time.Duration
	lost        int // seconds of a trial's evidence
	differences []discovery.Difference
	guards      []discovery.GuardState
	written     chan struct{} // closed by the next line
	deposed     chan struct{} // one for each reader of lines that is to be turned away
	emitted     chan struct{} // one for each line that a reader was sent
	automatic   bool          // each new generation is deployed at once
	watched     chan struct{} // one for each call that follows something
	stop        context.CancelFunc
	followed    chan error
}

func newPlane(work string) (*plane, error) {
	p := &plane{data: filepath.Join(work, "data"), store: memory.Open(memory.Options{}), followed: make(chan error, 1), watched: make(chan struct{}, 1000), written: make(chan struct{}), emitted: make(chan struct{}, 1000), deposed: make(chan struct{})}
	if err := os.MkdirAll(p.data, 0o700); err != nil {
		return nil, err
	}
	var err error
	if p.bucket, err = dir.Open(filepath.Join(p.data, "bucket")); err != nil {
		return nil, err
	}
	if p.authority, err = identity.OpenAuthority(filepath.Join(p.data, "authority"), identity.AuthorityOptions{}); err != nil {
		return nil, err
	}
	p.views = surface.New(surface.Config{})
	p.views.Begin(p.Epoch())
	p.api = httpapi.New(httpapi.Config{
		Store: p.store, Bucket: p.bucket, Hosts: hosts{p}, Gateways: gateways{}, Logs: p, Leader: p, Authority: p.authority, Discovery: p, Runtime: p, Registry: p, Views: p.views,
		NewID: func() string { return ulid.Make().String() }, Rand: rand.Reader,
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.followed <- p.follow(ctx) }()
	return p, p.open()
}

// open serves on the socket, as it does until the script closes it.
func (p *plane) open() error {
	l, err := net.Listen("unix", filepath.Join(p.data, SocketName))
	if err != nil {
		return err
	}
	p.server, p.served = &http.Server{Handler: p.counted(identity.LocalMiddleware("ann", p.api.Handler()))}, make(chan error, 1)
	go func(s *http.Server, served chan error) { served <- s.Serve(l) }(p.server, p.served)
	return nil
}

// counted notes each call that follows something.
func (p *plane) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case fairleadv1connect.ServiceAPIServiceWatchDeploymentProcedure, fairleadv1connect.ServiceAPIServiceStreamLogsProcedure:
			p.watched <- struct{}{}
		}
		next.ServeHTTP(w, r)
	})
}

func (p *plane) shut() error {
	if p.server == nil {
		return nil
	}
	err := p.server.Close()
	p.server = nil
	if serr := <-p.served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

func (p *plane) close() error {
	p.stop()
	err := p.shut()
	if ferr := <-p.followed; !errors.Is(ferr, context.Canceled) {
		err = errors.Join(err, ferr)
	}
	return errors.Join(err, p.store.Close(), p.authority.Close(), p.bucket.Close())
}

type hosts struct{ p *plane }

func (h hosts) States() []service.HostState {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	return []service.HostState{{Host: service.Host{Name: "h1", Zone: "a"}, Connected: true, Instances: h.p.instances}}
}

type gateways struct{}

func (gateways) States() []service.GatewayState {
	return []service.GatewayState{{Name: "gw", Connected: true, Public: "127.0.0.1:8080", Poll: "127.0.0.1:7702"}}
}

// Runtime says what the script made of it.
func (p *plane) Runtime() ([]discovery.SourceState, []discovery.Difference, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []discovery.SourceState{{Source: registry.Host, Name: "h1", Listed: 1, Registered: 1, Heard: true, Lag: p.lag}}, p.differences, true
}

// Try condemns what would remove by a tenth of the results.
func (p *plane) Try(_ context.Context, _ string, c eligibility.Contract, since time.Duration) (discovery.Trial, error) {
	if since != 6*time.Hour {
		return discovery.Trial{}, fmt.Errorf("since is %s", since)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t := discovery.Trial{Lost: p.lost, From: time.Unix(1_700_000_000, 0), To: time.Unix(1_700_000_600, 0), Seconds: 601, Recorded: 2, Reproduced: 2}
	t.Removals = append(t.Removals, discovery.Removal{Instance: "i1", At: t.To, Rule: eligibility.FailingCallers, Why: "a third fails", AlsoInForce: c.OutByOutcomes > 100})
	return t, nil
}

// Standings has a verdict on every instance that runs.
func (p *plane) Standings(name string) (out []discovery.Standing, observing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range p.instances {
		if i.Service == name {
			out = append(out, discovery.Standing{At: time.Unix(1_700_000_000, 0), Served: 400, Standing: evaluate.Standing{
				Instance: registry.Instance{ID: i.ID, Slot: i.Slot, Revision: i.Revision, Zone: "a"},
				Verdict:  view.Degraded, Rule: eligibility.FailingSome, Weight: 800,
				Account: eligibility.Account{Why: "a third fails", Classes: []string{"probes: none", "self: ready", "outcomes: 33%"}, Next: "time"},
			}})
		}
	}
	return out, true
}

// Guards are those that the script tripped.
func (p *plane) Guards(string) []discovery.GuardState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.guards)
}

// Decide takes any decision about any of them.
func (p *plane) Decide(_ context.Context, name string, d discovery.GuardDecision) ([]discovery.GuardState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.guards) == 0 {
		return nil, fault.New(fault.NotFound, "`fairlead instances "+name+"` shows what waits", "no guard of service %s has tripped there", name)
	}
	for i := range p.guards {
		p.guards[i].Decision, p.guards[i].By = d.Decision, d.By
	}
	return slices.Clone(p.guards), nil
}

// Probers are one that is well, one that is doubted, and one that is silent.
func (p *plane) Probers() (all []discovery.ProberState, unlooked int, observing bool) {
	return []discovery.ProberState{
		{Name: "p1", Zone: "a", Connected: true, Targets: 12, Assignment: 7},
		{Name: "p2", Zone: "a", Connected: true, Targets: 12, Borrowed: 3, Assignment: 7, Suspect: time.Unix(1_700_000_000, 0), Why: "9 of the 12 targets that it looked at last failed"},
		{Name: "p3", Zone: "b", Gone: true, Silent: 40 * time.Second},
	}, 2, true
}

func (p *plane) Leading() bool                               { return true }
func (p *plane) Epoch() view.Epoch                           { return view.Epoch{Incarnation: p.store.Incarnation(), Number: 1} }
func (p *plane) Alarms(string) []string                      { return nil }
func (p *plane) Stops(string) []service.StopWait             { return nil }
func (p *plane) RetryAt(string) time.Time                    { return time.Time{} }
func (p *plane) RetireGateway(context.Context, string) error { return nil }
func (p *plane) RetireHost(context.Context, string) error    { return nil }
func (p *plane) DrainHost(context.Context, string, bool) error {
	return nil
}

// Logs gives what was written; who follows gets the rest of it as it is written.
func (p *plane) Logs(ctx context.Context, q service.LogQuery, emit func([]service.LogLine) error) error {
	for from := -1; ; {
		p.mu.Lock()
		if from < 0 {
			from = max(0, len(p.lines)-q.Tail)
		}
		lines, written := p.lines[from:], p.written
		p.mu.Unlock()
		if err := emit(lines); err != nil {
			return err
		}
		from += len(lines)
		for range lines {
			p.emitted <- struct{}{}
		}
		if !q.Follow {
			return nil
		}
		select {
		case <-written:
		case <-p.deposed:
			return fault.New(fault.Unavailable, "ask again", "this control leads no more")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow plays the leader for every new generation, while the script says so.
func (p *plane) follow(ctx context.Context) error {
	w, err := p.store.Watch(ctx, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		c, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, ch := range c.Changes {
			if ch.Kind != service.KindDesired || ch.Deleted {
				continue
			}
			var d service.Desired
			if err := json.Unmarshal(ch.Body, &d); err != nil {
				return err
			}
			if err := p.obey(d); err != nil {
				return err
			}
		}
	}
}

func (p *plane) obey(d service.Desired) error {
	p.mu.Lock()
	automatic := p.automatic
	p.mu.Unlock()
	if !automatic {
		return nil
	}
	if d.Deleted {
		return p.erase(service.KindDesired, d.Service)
	}
	return p.deployed(d)
}

// deployed records that a generation was applied: by a deploy, step by step, or,
// where a revision is what it asks for, by moving traffic.
func (p *plane) deployed(d service.Desired) error {
	var before service.Catalog
	if err := p.read(service.KindCatalog, d.Service, &before); err != nil {
		return err
	}
	if there, err := p.revisionOf(d); err != nil {
		return err
	} else if there != "" {
		return p.put(service.KindCatalog, d.Service, recorded(d, before, there))
	}
	name := fmt.Sprintf("%s-%05d", d.Service, d.Generation)
	r := saga.Record{ID: name, Kind: "deploy", Owner: d.Service, Subject: name, Generation: d.Generation, Attempt: 1, State: saga.Running, Started: time.Now()}
	for _, s := range []string{"queue", "install", "instances", "ready", "routes", "finalize"} {
		r.Steps = append(r.Steps, saga.Step{Name: s, State: "done", Text: s + " is done", Took: 12 * time.Millisecond})
		if err := p.put(service.KindSaga, r.ID, r); err != nil {
			return err
		}
	}
	r.State = saga.Done
	return errors.Join(
		p.put(service.KindRevision, name, service.Revision{
			Name: name, Service: d.Service, Number: d.Generation, State: service.RevisionServing, Template: d.Template, Force: d.Force,
			Slots: []service.Slot{{ID: name + ".0", Host: "h1"}}, CreatedAt: time.Now(),
		}),
		p.put(service.KindCatalog, d.Service, recorded(d, before, name)),
		p.put(service.KindSaga, r.ID, r),
	)
}

// recorded is the catalog once the generation is applied with latest the latest.
func recorded(d service.Desired, c service.Catalog, latest string) service.Catalog {
	lead := service.Lead(c.Traffic)
	c.Service, c.ObservedGeneration, c.Latest, c.Traffic = d.Service, d.Generation, latest, nil
	for _, t := range d.Traffic {
		name := cmp.Or(t.Revision, latest)
		c.Traffic = append(c.Traffic, service.CatalogPart{Revision: name, Percent: t.Percent, Tag: t.Tag, Group: name})
	}
	if len(d.Traffic) == 0 {
		c.Traffic = []service.CatalogPart{{Revision: latest, Percent: 100, Group: latest}}
	}
	if lead != "" && lead != service.Lead(c.Traffic) {
		c.Earlier = append([]service.EarlierTraffic{{Revision: lead, Ended: time.Now()}}, c.Earlier...)
		c.Warm, c.WarmUntil = lead, time.Now().Add(time.Minute)
	}
	return c
}

// revisionOf is the revision that the document asks for; empty when there is none.
func (p *plane) revisionOf(d service.Desired) (string, error) {
	docs, _, err := p.store.List(context.Background(), service.KindRevision)
	if err != nil {
		return "", err
	}
	for _, doc := range docs {
		var r service.Revision
		if err := json.Unmarshal(doc.Body, &r); err != nil {
			return "", err
		}
		if r.Service == d.Service && r.Force == d.Force && r.Template.Digest("") == d.Template.Digest("") {
			return r.Name, nil
		}
	}
	return "", nil
}

// read leaves into as it is where there is no such document.
func (p *plane) read(kind, name string, into any) error {
	doc, err := p.store.Get(context.Background(), store.Key{Kind: kind, Name: name})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(doc.Body, into)
}

func (p *plane) put(kind, name string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = p.store.Apply(context.Background(), store.Apply{ID: ulid.Make().String(), Writes: []store.Write{{Key: store.Key{Kind: kind, Name: name}, Any: true, Body: body}}})
	return err
}

func (p *plane) erase(kind, name string) error {
	_, err := p.store.Apply(context.Background(), store.Apply{ID: ulid.Make().String(), Writes: []store.Write{{Key: store.Key{Kind: kind, Name: name}, Any: true, Delete: true}}})
	return err
}

// do is the script's command.
func (p *plane) do(args []string) error {
	switch args[0] {
	case "automatic":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.automatic = args[1] == "on"
		return nil
	case "fails": // the next generation of a service fails at ready
		return p.put(service.KindSaga, args[1], saga.Record{
			ID: args[1], Kind: "deploy", Owner: args[1], Subject: args[1] + "-00002", Generation: 2, Attempt: 1, State: saga.Waiting,
			Steps:      []saga.Step{{Name: "queue", State: "done"}, {Name: "ready", State: "failed", Text: "exit status 3"}},
			FailedStep: "ready", Error: "exit status 3", LastLines: []string{"no database", "\x1b]0;pwned\x07\u202etxt"}, RetryAt: time.Now().Add(time.Minute), Started: time.Now(),
		})
	case "progress": // a deployment of a service is at a step; held when a reason is given
		r := saga.Record{
			ID: args[1] + ".deploy", Kind: "deploy", Owner: args[1], Subject: args[1] + "-00009", Generation: 2, Attempt: 1, State: saga.Running,
			Steps: []saga.Step{{Name: "queue", State: "done"}, {Name: args[2], State: "running"}}, Started: time.Now(),
		}
		if len(args) > 3 {
			r.Held = args[3]
		}
		return p.put(service.KindSaga, r.ID, r)
	case "undone": // what was in progress of a service
		return p.put(service.KindSaga, args[1]+".deploy", saga.Record{
			ID: args[1] + ".deploy", Kind: "deploy", Owner: args[1], Generation: 2, Attempt: 1, State: saga.Failed, Error: "aborted", Started: time.Now(),
		})
	case "runs":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.instances = append(p.instances, service.Instance{ID: args[2], Slot: args[1] + "-00001.0", Service: args[1], Revision: args[1] + "-00001", State: service.InstanceLive, Pid: 42})
		return nil
	case "judged": // a transition of an instance
		x := discovery.Record{
			Service: args[1], Instance: args[2], At: time.Now(), Tick: 7, To: eligibility.Ineligible, Rule: eligibility.FailingCallers,
			From: eligibility.Eligible, Why: "a third fails", Row: registry.Instance{Handle: 1},
		}
		return p.put(service.KindTransition, args[1]+".000000000007.1", x)
	case "trips": // the guard of a group, in a mode
		p.mu.Lock()
		defer p.mu.Unlock()
		p.guards = append(p.guards, discovery.GuardState{
			Guarded: view.Guarded{ZoneMark: view.ZoneMark{Group: args[1], Zone: "a", Counted: 10, In: 3}, Served: 8}, Mode: view.GuardMode(args[2]), Since: time.Unix(1_700_000_000, 0),
		})
		return nil
	case "differs": // an instance's row from what its host says
		p.mu.Lock()
		defer p.mu.Unlock()
		p.differences = append(p.differences, discovery.Difference{Source: registry.Host, Name: "h1", Service: args[1], Instance: args[2], What: discovery.HeldDrop, Authority: "-", Registry: "registered"})
		return nil
	case "lags": // the host's last word is so old
		p.mu.Lock()
		defer p.mu.Unlock()
		var err error
		p.lag, err = time.ParseDuration(args[1])
		return err
	case "loses": // so many seconds of the evidence
		p.mu.Lock()
		defer p.mu.Unlock()
		var err error
		p.lost, err = strconv.Atoi(args[1])
		return err
	case "wrote":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lines = append(p.lines, service.LogLine{Instance: args[1], Revision: "hello-00001", Text: args[2]})
		close(p.written)
		p.written = make(chan struct{})
		return nil
	case "host":
		return p.put(service.KindHost, args[1], service.Host{Name: args[1], Zone: "a"})
	case "gateway":
		return p.put(service.KindGateway, args[1], service.Gateway{Name: args[1]})
	case "shut":
		return p.shut()
	case "watched":
		<-p.watched
		return nil
	case "deposed":
		p.deposed <- struct{}{}
		return nil
	case "sent": // a line to a reader
		<-p.emitted
		return nil
	case "deployed":
		doc, err := p.store.Get(context.Background(), store.Key{Kind: service.KindDesired, Name: args[1]})
		if err != nil {
			return err
		}
		var d service.Desired
		if err := json.Unmarshal(doc.Body, &d); err != nil {
			return err
		}
		return p.deployed(d)
	case "registered", "deregistered":
		return p.awaitLease(args[1], args[0] == "registered")
	case "publishes": // a view of a service with two endpoints, to these callers
		p.views.Publish(p.view(args[1], args[2:]), view.Adds)
		return nil
	case "open":
		return p.open()
	}
	return fmt.Errorf("plane does not know %q", args[0])
}
