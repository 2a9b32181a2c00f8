package discovery

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// router is a lead whose routes a test sets.
type router struct {
	*lead
	mu      sync.Mutex
	routes  []view.Route
	at      uint64
	changed chan struct{}
}

func (l *router) Routes() ([]view.Route, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.routes, l.at
}

func (l *router) RoutesChanged() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *router) turn(routes ...view.Route) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes, l.at = routes, l.at+1
	close(l.changed)
	l.changed = make(chan struct{})
}

// to is the route of the service s that leads to one revision.
func to(revision string) view.Route {
	return view.Route{Service: "s", Splits: []view.Split{{Revision: revision, Percent: 100, Group: revision, Allowed: []string{revision}}}}
}

// routed is a plane under a lead whose routes the test sets, with nothing routed.
func (r *rig) routed(views Publisher) (*Plane, *router, func()) {
	first := r.begin() // for its lead alone
	first.stop()
	l := &router{lead: first.lead, changed: make(chan struct{}), at: 1}
	p, end := r.run(l, views)
	return p, l, end
}

func (r *rig) run(l Lead, views Publisher) (*Plane, func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	p, done := New(Config{Store: r.store, Bucket: r.bucket, Hosts: r.hosts, Views: views}), make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx, l)
	}()
	return p, func() { cancel(); <-done }
}

func TestWhoSubscribesAtAnyMomentOfAFirstDeployIsNeverToldThatTheServiceIsEmpty(t *testing.T) {
	inRegion(t, func(r *rig) {
		c := newCaller(t)
		p, l, end := r.routed(c)
		defer end()
		r.hosts.start(process("i1", "s-00001", service.InstanceStarting))
		time.Sleep(2 * time.Second)
		r.hosts.set("i1", service.InstanceLive)
		time.Sleep(4*time.Second + 300*time.Millisecond)
		synctest.Wait()
		if c.versions != 0 {
			t.Fatalf("before it is routed a view is published: %+v", c.last)
		}
		if why, follows := p.Follows("s", 2); follows || why == "" {
			t.Errorf("it follows what it has not seen: %q", why)
		}
		l.turn(to("s-00001"))
		time.Sleep(2 * window)
		synctest.Wait()
		if got := fmt.Sprint(c.picks()); got != "[i1]" || c.versions != 1 || c.last.Empty {
			t.Errorf("callers pick among %s by %+v", got, c.last)
		}
		if why, follows := p.Follows("s", 2); !follows {
			t.Errorf("its view does not follow: %s", why)
		}
	})
}

func TestANewLeaderInMidDeployPublishesNoEmptyView(t *testing.T) {
	inRegion(t, func(r *rig) {
		_, l, end := r.routed(nil)
		r.hosts.start(process("i1", "s-00001", service.InstanceLive))
		time.Sleep(3 * time.Second)
		end()
		c := newCaller(t)
		_, end = r.run(l, c)
		defer end()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if c.versions != 0 {
			t.Errorf("a view is published: %+v", c.last)
		}
	})
}

func TestRoutesThatTurnAreInTheViewAtOnceUnlessThereIsMoreToSendThanCanBeSent(t *testing.T) {
	inRegion(t, func(r *rig) {
		c := newCaller(t)
		p, l, end := r.routed(c)
		defer end()
		r.hosts.start(process("i1", "s-00001", service.InstanceLive), process("j1", "s-00002", service.InstanceLive))
		l.turn(to("s-00001"))
		time.Sleep(5*time.Second + 100*time.Millisecond)
		l.turn(to("s-00002"))
		time.Sleep(2 * window)
		synctest.Wait()
		if _, follows := p.Follows("s", 3); !follows || fmt.Sprint(c.picks()) != "[j1]" {
			t.Errorf("callers pick among %s", c.picks())
		}
		c.saturate(true)
		time.Sleep(20 * time.Second)
		l.turn(to("s-00001"))
		time.Sleep(2 * window)
		synctest.Wait()
		if why, follows := p.Follows("s", 4); follows || fmt.Sprint(c.picks()) != "[j1]" {
			t.Errorf("callers pick among %s: %s", c.picks(), why)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if why, follows := p.Follows("s", 4); !follows || fmt.Sprint(c.picks()) != "[i1]" {
			t.Errorf("callers pick among %s: %s", c.picks(), why)
		}
	})
}

func TestAViewFollowsARouteAtOnceAndOneMoreWithinTheWindowIsGathered(t *testing.T) {
	inRegion(t, func(r *rig) {
		p, l, end := r.routed(newCaller(t))
		defer end()
		r.hosts.start(process("i1", "s-00001", service.InstanceLive), process("j1", "s-00002", service.InstanceLive))
		l.turn(to("s-00001"))
		time.Sleep(5*time.Second + 100*time.Millisecond)
		follows := func(commit uint64) bool {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			_, follows := p.Follows("s", commit)
			return follows
		}
		l.turn(to("s-00002"))
		if !follows(3) {
			t.Error("the view of a route waits for the window")
		}
		l.turn(to("s-00001"))
		if follows(4) {
			t.Error("the view of a second route within the window is not gathered")
		}
		time.Sleep(routeWindow)
		if !follows(4) {
			t.Error("after the window the view does not follow the second route")
		}
	})
}

func TestANewLeaderPublishesThatAllThatThereIsLeavesByPlan(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		c := newCaller(t)
		r.views = c
		l := r.begin()
		time.Sleep(5 * time.Second)
		l.stop()
		l = r.begin()
		defer l.stop()
		synctest.Wait()
		l.Withdraw("s", []string{"i1"})
		time.Sleep(2 * window)
		synctest.Wait()
		if e, named := c.last.Endpoint("i1"); named || c.last.Version.Epoch != 2 || c.last.Empty {
			t.Errorf("the view is %+v, with %+v", c.last, e)
		}
		if fmt.Sprint(c.picks()) != "[i1]" {
			t.Errorf("a caller is left with %v: that is not the plane's word that there are none", c.picks())
		}
	})
}
