package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// pointStore numbers the writes of one controller, and fails at one of them.
type pointStore struct {
	store.Store
	mu   sync.Mutex
	from func(a store.Apply) bool // the first write that counts; nil counts all
	n    int
	// at is the number of the write to fail at; zero fails at none.
	at   int
	mode mode
	kill func()
	hook func(n int, a store.Apply) // after each counted write
	dead bool
}

// mode is what happens at a point.
type mode string

const (
	crashBefore mode = "crash before"
	crashAfter  mode = "crash after"
	notLanded   mode = "an error that did not land"
	landed      mode = "an error that landed"
	unknown     mode = "an unknown that landed"
)

var (
	errDead  = errors.New("the controller is dead")
	errPoint = errors.New("the store failed")
)

func (p *pointStore) point(a store.Apply) (n int, hit bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return 0, false, errDead
	}
	if p.n == 0 && p.from != nil && !p.from(a) {
		return 0, false, nil
	}
	p.n++
	return p.n, p.n == p.at, nil
}

func (p *pointStore) die() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.kill()
}

func (p *pointStore) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	n, hit, err := p.point(a)
	if err != nil {
		return store.Result{}, err
	}
	if hit && p.mode == crashBefore {
		p.die()
		return store.Result{}, errDead
	}
	if hit && p.mode == notLanded {
		return store.Result{}, errPoint
	}
	res, err := p.Store.Apply(ctx, a)
	if n > 0 && p.hook != nil {
		p.hook(n, a)
	}
	switch {
	case !hit:
	case p.mode == crashAfter:
		p.die()
		return store.Result{}, errDead
	case p.mode == landed && err == nil:
		return store.Result{}, errPoint
	case p.mode == unknown && err == nil:
		return store.Result{}, store.ErrUnknown
	}
	return res, err
}

func (p *pointStore) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// writes says that an Apply writes a document of the kind.
func writes(kind, name string) func(store.Apply) bool {
	return func(a store.Apply) bool {
		for _, w := range a.Writes {
			if w.Kind == kind && (name == "" || w.Name == name) {
				return true
			}
		}
		return false
	}
}

// killable starts a controller that dies with its points.
func (r *rig) killable(p *pointStore) *running {
	r.t.Helper()
	dead := make(chan struct{})
	var c *running
	var once sync.Once
	made := make(chan struct{})
	defer close(made)
	p.kill = func() {
		once.Do(func() {
			<-made
			close(dead)
			c.cancel()
		})
	}
	c = r.start(options{dead: dead, wrap: func(s store.Store) store.Store { p.Store = s; return p }})
	return c
}

// secondDeploy deploys a second release over a first, with a failure at one
// point, and returns how many points there were.
func secondDeploy(t *testing.T, at int, m mode) (points int) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{from: writes(service.KindRevision, "hello-00002"), at: at, mode: m}
		c := r.killable(p)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		stop := r.watched("hello", "g1")
		r.deploy("hello", "two")
		if m == crashBefore || m == crashAfter {
			r.within(2*time.Minute, "the controller is dead", func() bool {
				select {
				case <-c.done:
					return true
				default:
					return at == 0 && r.catalog("hello").Latest == "hello-00002"
				}
			})
			if at > 0 {
				c.port.Close()
				r.start(options{})
			}
		}
		r.serves(2*time.Minute, "hello", "hello-00002")
		points = p.count()
		r.within(2*time.Minute, "the first is retired", func() bool {
			return r.revision("hello-00001").State == service.RevisionRetired && len(r.live("hello-00001")) == 0
		})
		stop()
		if n := len(list[service.Revision](r, service.KindRevision, "hello")); n != 2 {
			t.Errorf("there are %d revisions", n)
		}
		deploys := 0
		for _, s := range list[saga.Record](r, service.KindSaga, "hello") {
			if s.Kind == service.WorkDeploy && s.Subject == "hello-00002" {
				deploys++
			}
			if s.Open() {
				t.Errorf("saga %s is left %s", s.ID, s.State)
			}
		}
		told := map[string]bool{}
		for _, e := range list[service.Event](r, service.KindEvent, "hello") {
			if step, _, _ := strings.Cut(e.Text, ":"); e.Revision == "hello-00002" {
				told[step] = true
			}
		}
		for _, step := range []string{"queue", "install", "instances", "ready", "routes", "finalize"} {
			if !told["deploy "+step] {
				t.Errorf("the history does not tell of %s", step)
			}
		}
		if deploys != 1 {
			t.Errorf("%d sagas made the second revision", deploys)
		}
		if n := len(r.live("hello-00002")); n != 1 {
			t.Errorf("%d instances of the second revision", n)
		}
		if p.count() > points {
			points = p.count()
		}
	})
	return points
}

func TestADeployKilledBeforeAndAfterEveryWriteIsFinishedByTheSameRevision(t *testing.T) {
	points := secondDeploy(t, 0, crashBefore)
	if points < 7 {
		t.Fatalf("only %d points were seen", points)
	}
	for _, m := range []mode{crashBefore, crashAfter} {
		for at := 1; at <= 8; at++ {
			t.Run(fmt.Sprintf("%s %d", m, at), func(t *testing.T) { secondDeploy(t, at, m) })
		}
	}
}

func TestADeployWhoseStoreFailsAtAnyWriteIsFinishedByTheSameRevision(t *testing.T) {
	points := secondDeploy(t, 0, notLanded)
	for _, m := range []mode{notLanded, landed, unknown} {
		for at := 1; at <= points; at++ {
			t.Run(fmt.Sprintf("%s %d", m, at), func(t *testing.T) { secondDeploy(t, at, m) })
		}
	}
}

func TestADeployTakesAtMostEightCommits(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pointStore{}
		r.killable(p)
		r.within(time.Second, "the gateway is known", func() bool {
			_, ok := get[service.Gateway](r, service.KindGateway, "g1")
			return ok
		})
		before := p.count()
		r.deploy("hello", "one")
		r.within(5*time.Second, "it is done", func() bool { return r.deploySaga("hello").State == saga.Done })
		if n := p.count() - before; n > 8 {
			t.Errorf("%d commits", n)
		}
	})
}
