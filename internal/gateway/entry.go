package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
)

// exchange is one caller's request on its way through the gateway. They are
// pooled; reset says what is kept.
type exchange struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	caller  *caller
	end     *ending // when the caller hangs up or its body fails
	svc     *service
	group   string
	ticket  ticket
	began   time.Time
	by      time.Time // the first byte of a response is due
	id      string    // of the request, as told to the instance and the caller
	upgrade string    // protocol that the caller would change to; empty: none
	body    body
	// informed says that informational responses went to the caller, forwarded
	// that something of the final one did.
	informed, forwarded bool
	nowhere             bool // nobody could be sent to
	status              int
	resends, unsent     int
	// own is end but for a request with a body; it and the timer are kept.
	own *ending
	due *time.Timer // in the queue; nil before it was needed
}

var exchanges = sync.Pool{New: func() any {
	x := &exchange{own: newEnding()}
	x.ticket.ready = make(chan struct{}, 1)
	x.ticket.Owner = &x.ticket
	return x
}}

func (x *exchange) reset() {
	ready := x.ticket.ready
	x.body.release()
	x.own.renew()
	*x = exchange{own: x.own, due: x.due}
	x.ticket.ready = ready
	x.ticket.Owner = &x.ticket
}

// ServeHTTP takes one request through the gateway.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.inflight.Add(1)
	defer g.inflight.Done()
	c := callerOf(r)
	if c.spoiled.Load() {
		panic(http.ErrAbortHandler)
	}
	x := exchanges.Get().(*exchange)
	x.g, x.w, x.r, x.caller, x.end, x.began = g, w, r, c, x.own, time.Now()
	defer x.finish()
	x.serve()
}

// finish counts the request and gives the exchange back. It runs also when the
// answer is cut off by a panic, and lets the panic go on.
func (x *exchange) finish() {
	x.body.stop(x)
	x.leave()
	took := time.Since(x.began)
	x.g.metrics.done(x, took)
	if l := x.g.cfg.AccessLog; l != nil {
		l.LogAttrs(context.Background(), 0, "request", x.attrs(took)...)
	}
	x.reset()
	exchanges.Put(x)
}

// leave ends the watch for a caller that hangs up.
func (x *exchange) leave() {
	if !x.caller.leave() {
		x.own = newEnding()
	}
}

func (x *exchange) serve() {
	ix := x.g.room.index.Load()
	if ix == nil {
		x.nowhere = true
		x.fail(http.StatusServiceUnavailable, "no-table", "no route table is held: none has been received since the start, and none on disk could be read")
		return
	}
	to, ok := ix.find(x.r.Host)
	if !ok {
		x.fail(http.StatusNotFound, "unknown-host", unknownHost(ix, x.r))
		return
	}
	x.svc, x.ticket.Tag = to.svc, to.tag
	if !x.prepare() {
		return
	}
	if x.body.src == nil {
		x.caller.begin(x.r, x.own, x.began)
	}
	arrived := x.began
	if x.body.size > 0 {
		arrived = time.Now() // the time that its body took to come is the caller's
	}
	x.by = arrived.Add(x.svc.firstByte())
	x.ticket.Arrived = arrived.Sub(x.g.start)
	x.ticket.Deadline = x.by.Sub(x.g.start)
	for again := false; x.lease(again); again = true {
		if !x.try() {
			return
		}
		x.resends++
		x.g.metrics.resends.Inc()
	}
}

// lease waits until the request has a lease. False means that it was answered,
// or that nobody waits for an answer any more.
func (x *exchange) lease(again bool) bool {
	for {
		sh := x.choose()
		if sh == nil {
			return false
		}
		t := &x.ticket
		if !sh.enter(t, time.Since(x.g.start), again) && !x.wait(sh) {
			return false
		}
		switch t.verdict {
		case lease.Grant:
			return true
		case lease.Displace: // the table has moved on, or is about to
			x.g.room.settled()
			again = true
		default:
			x.rejected(t.reason)
			return false
		}
	}
}

// choose finds the group under the table of now; the host name led to the
// service when the request came, and that is not asked again.
func (x *exchange) choose() *shard {
	ix := x.g.room.index.Load()
	svc := ix.services[x.svc.name]
	if svc == nil || svc.deleted {
		x.fail(http.StatusNotFound, "deleted", "service "+x.svc.name+" was deleted")
		return nil
	}
	x.svc = svc
	i := svc.chooser.Choose(x.ticket.Tag, rand.Uint32())
	if i < 0 {
		x.nowhere = true
		x.fail(http.StatusServiceUnavailable, "no-traffic", "service "+svc.name+" has no traffic: none of its revisions is routed to")
		return nil
	}
	x.group = svc.splits[i].Group
	return svc.shards[i]
}

// wait waits for an answer from the queue. One of three things comes first: the
// answer, the deadline, or the end of the request: its caller hung up, or its
// body failed.
func (x *exchange) wait(sh *shard) (answered bool) {
	t := &x.ticket
	due := x.timer(time.Until(x.by))
	defer due.Stop()
	for {
		select {
		case <-t.ready:
			return true
		case <-due.C:
			if sh.expire(t, time.Since(x.g.start)) {
				return true
			}
			if time.Now().Before(x.by) { // never early by the queue's own clock
				due.Reset(time.Millisecond)
			}
		case <-x.end.news:
			return x.hangUp(sh)
		}
	}
}

func (x *exchange) timer(d time.Duration) *time.Timer {
	if x.due == nil {
		x.due = time.NewTimer(d)
	} else {
		x.due.Reset(d)
	}
	return x.due
}

// hangUp leaves the queue. A lease that came at the same moment is given back.
func (x *exchange) hangUp(sh *shard) bool {
	t := &x.ticket
	if !sh.leave(t) {
		<-t.ready
		if t.verdict == lease.Grant {
			t.inst.Owner.(*member).end()
		}
	}
	x.gone()
	return false
}

// gone ends a request that ended before it was answered. Who sent what is no
// body is told so where that is still possible; nobody else waits for an answer.
func (x *exchange) gone() {
	if x.body.slow() {
		x.w.Header().Set("Connection", "close")
		x.fail(http.StatusRequestTimeout, "slow-body", fmt.Sprintf("the body of the request paused for %s, or came at less than %d bytes a second", x.g.cfg.BodyTimeout, minBodyRate))
		return
	}
	if err := x.body.malformed(); err != nil {
		x.w.Header().Set("Connection", "close")
		x.fail(http.StatusBadRequest, "bad-request", "the body of the request could not be read: "+err.Error())
		return
	}
	x.status = statusHungUp
	panic(http.ErrAbortHandler)
}

func (x *exchange) rejected(why lease.Reason) {
	x.nowhere = true
	if why == lease.Full {
		x.w.Header().Set("Retry-After", "1")
		x.fail(http.StatusServiceUnavailable, "full", x.where()+": as many requests wait as may; try again in a second")
		return
	}
	x.fail(http.StatusGatewayTimeout, "deadline", x.where()+": no instance was free within "+x.svc.firstByte().String())
}

// where names service and group for people.
func (x *exchange) where() string {
	return "service " + x.svc.name + ", group " + x.group
}
