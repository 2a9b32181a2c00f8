package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/view"
)

var epoch = view.Epoch{Incarnation: "01JDXH3W8PZ6QK2M4N5R7S9TVW", Number: 1, Nonce: "n"}

// publisher publishes as the discovery plane does: what takes traffic from
// trouble after a short gathering, and the rest each second, or less often under
// saturation.
type publisher struct {
	s     *views.Server
	began time.Time

	mu        sync.Mutex
	counter   uint64
	target    map[string]*view.Service
	published map[string]*view.Service
	touched   map[string]bool
	urgent    chan struct{} // holds one: something is in trouble
	rest      budget.Rest
	pace      budget.Pace
	took      time.Duration
	longest   time.Duration // window so far
	changes   int
}

// gather as the plane does.
const gather = 50 * time.Millisecond

func serveOurs(l net.Listener, z size) side {
	s := views.New(views.Config{Unlimited: true, Peer: func(ctx context.Context) (string, string, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if names := md.Get("name"); len(names) == 1 {
			return "service", names[0], nil
		}
		return "", "", fmt.Errorf("no name")
	}})
	s.Begin(epoch)
	p := &publisher{
		s: s, began: time.Now(), target: map[string]*view.Service{}, published: map[string]*view.Service{}, touched: map[string]bool{}, urgent: make(chan struct{}, 1),
	}
	for i := range z.services {
		v := &view.Service{Name: service(i), Marks: []view.ZoneMark{{Group: service(i) + "-00001", Zone: "a", Counted: z.endpoints, In: z.endpoints}}}
		for k := range z.endpoints {
			v.Endpoints = append(v.Endpoints, view.Endpoint{ID: endpoint(v.Name, k), Revision: v.Name + "-00001", Address: address(k), Zone: "a", Weight: view.FullWeight, Verdict: view.Eligible})
		}
		v.Seal(nil)
		p.target[v.Name], p.touched[v.Name] = v, true
	}
	p.publish(true)
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(certificate())))
	s.Register(g)
	go func() { log.Fatal(g.Serve(l)) }()
	go p.run()
	return p
}

func (p *publisher) run() {
	tick := time.NewTicker(time.Second)
	var gathered <-chan time.Time
	for {
		select {
		case <-tick.C:
			began := time.Now()
			p.publish(true)
			load := p.s.Load()
			load.Turn = time.Since(began)
			p.mu.Lock()
			p.pace.Step(load)
			why, sheds := p.pace.Sheds()
			window := p.pace.Window()
			p.longest = max(p.longest, window)
			p.mu.Unlock()
			if !sheds {
				window = 0
			}
			p.s.Shed(window, why)
		case <-p.urgent:
			if gathered == nil {
				gathered = time.After(gather)
			}
		case <-gathered:
			gathered = nil
			p.publish(false)
		}
	}
}

// publish is what evaluate and discovery do together.
func (p *publisher) publish(turn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, window := time.Since(p.began), p.pace.Window()
	_, sheds := p.pace.Sheds()
	due := func(name string) bool { return turn && p.rest.Due(name, now, window) }
	for _, name := range p.rest.Waiting() {
		if due(name) {
			p.touched[name] = true
		}
	}
	planned := func(string) bool { return false }
	for name := range p.touched {
		delete(p.touched, name)
		old, next := p.published[name], *p.target[name]
		nature := view.Adds
		if old != nil {
			way := view.Between(old, &next)
			nature = way.Nature(planned)
			if !due(name) {
				trouble := way.Trouble(planned)
				if !trouble.Any() {
					p.rest.Wait(name, now)
					continue
				}
				urgent := *trouble.View()
				urgent.Seal(old)
				if urgent.Sum != next.Sum {
					p.rest.Wait(name, now)
					urgent.Shed = sheds
				}
				next, nature = urgent, view.Withdraws
			} else {
				p.rest.Done(name)
			}
		}
		p.counter++
		next.Epoch, next.Version = epoch, view.Version{Incarnation: epoch.Incarnation, Epoch: epoch.Number, Counter: p.counter}
		p.published[name] = &next
		p.s.Publish(&next, nature)
	}
}

// turn puts an endpoint out of rotation or back.
func (p *publisher) turn(name string, i int) (out bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.target[name]
	next := *old
	next.Endpoints = slices.Clone(old.Endpoints)
	e := &next.Endpoints[i]
	if out = e.In(); out {
		e.Weight, e.Verdict = 0, view.Ineligible
	} else {
		e.Weight, e.Verdict = view.FullWeight, view.Eligible
	}
	next.Marks = slices.Clone(old.Marks)
	next.Marks[0].In = next.InRotation()
	next.Seal(old)
	p.target[name], p.touched[name] = &next, true
	p.changes++
	if out {
		select {
		case p.urgent <- struct{}{}:
		default:
		}
	}
	return out
}

// await looks at a service until all of it is acknowledged, and then at the next:
// a look costs by the service's subscribers, and keeps the server from sending.
func (p *publisher) await(z size) {
	for p.s.Load().Subscribers != z.subscribers || p.waits() {
		time.Sleep(100 * time.Millisecond)
	}
	for i := range z.services {
		for !p.current(service(i)) {
			time.Sleep(200 * time.Millisecond)
		}
	}
}

func (p *publisher) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rest.Waiting())+len(p.touched) > 0
}

func (p *publisher) current(name string) bool {
	r, _ := p.s.Propagation(name)
	t := p.s.Tally(name)
	return t.GetSubscribers() == 0 || len(t.GetVersions()) == 1 && t.GetVersions()[0].GetCounter() == r.Published.Counter && t.GetVersions()[0].GetSubscribers() == t.GetSubscribers()
}

func (p *publisher) acknowledged(k budget.Kind) int64 {
	r, _ := p.s.Propagation(service(0))
	return int64(r.Latency[k].Count())
}

func (p *publisher) fail(z size) (p99, p999 time.Duration) {
	before, began := p.acknowledged(budget.Withdrawal), time.Now()
	p.turn(service(0), z.endpoints/2)
	return quantiles(int64(z.subscribers), began, func() int64 { return p.acknowledged(budget.Withdrawal) - before })
}

func (p *publisher) recover(z size) {
	for turn := range 2 {
		for p.waits() || !p.current(service(0)) {
			time.Sleep(200 * time.Millisecond)
		}
		if turn == 0 {
			p.turn(service(0), z.endpoints/2)
		}
	}
}

func (p *publisher) churn(z size, rate float64, d time.Duration, failures int) churned {
	p.mu.Lock()
	p.longest, p.changes = 0, 0
	p.mu.Unlock()
	before := p.sums()
	began := time.Now()
	for n := 0; time.Since(began) < d; n++ {
		if wait := time.Until(began.Add(time.Duration(float64(n) / rate * float64(time.Second)))); wait > 0 {
			time.Sleep(wait)
		}
		name := service(rand.IntN(z.services))
		p.change(name, z, rand.IntN(100) < failures)
	}
	ended := time.Now()
	// Everything that waits goes within its window; then it is acknowledged.
	out := churned{Behind: -1}
	settled := make(chan struct{})
	go func() { p.await(z); close(settled) }()
	select {
	case <-settled:
		out.Behind = time.Since(ended).Seconds()
	case <-time.After(time.Minute):
	}
	after := p.sums()
	share := func(i int) (int64, float64) {
		due, in := after[i].due-before[i].due, after[i].in-before[i].in
		if due == 0 {
			return 0, 1
		}
		return due, float64(in) / float64(due)
	}
	out.Withdrawals, out.In5 = share(0)
	_, out.In15 = share(1)
	out.Additions, out.In30 = share(2)
	p.mu.Lock()
	out.Changes, out.Window = p.changes, p.longest.Seconds()
	p.mu.Unlock()
	return out
}

type sum struct{ due, in int64 }

// sums of the promises over all services, by the ledgers' histograms: those who
// have acknowledged, and those of them in time.
func (p *publisher) sums() (out [3]sum) {
	for _, r := range p.s.Propagations() {
		for i, promise := range budget.Promises() {
			h := r.Latency[promise.Kind]
			out[i].due += int64(h.Count())
			for k, b := range budget.Bounds {
				if b <= promise.Within {
					out[i].in += int64(h.Counts[k])
				}
			}
		}
	}
	return out
}

// change an endpoint of a service: one fails, or one that is out comes back, or a
// weight rises and falls by plan.
func (p *publisher) change(name string, z size, failure bool) {
	p.mu.Lock()
	v := p.target[name]
	i := rand.IntN(z.endpoints)
	in := v.Endpoints[i].In()
	p.mu.Unlock()
	if failure == in {
		p.turn(name, i)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *v
	next.Endpoints = slices.Clone(v.Endpoints)
	e := &next.Endpoints[i]
	if e.Weight > 0 { // a step of a ramp
		e.Weight = 900 + rand.IntN(101)
	} else {
		e.Weight, e.Verdict = view.FullWeight, view.Eligible
	}
	next.Marks = slices.Clone(v.Marks)
	next.Marks[0].In = next.InRotation()
	next.Seal(v)
	p.target[name], p.touched[name] = &next, true
	p.changes++
}
