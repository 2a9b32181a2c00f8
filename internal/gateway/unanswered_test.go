package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/gateway"
)

const (
	giveUp = 100 * time.Millisecond
	whole  = "GET /hang HTTP/1.1\r\nHost: hello.localhost\r\n\r\n"
)

// hanging is an instance that answers "a" but for what asks for /hang: it says who
// came, and then nothing.
type hanging struct{ in chan struct{} }

func (h *hanging) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path != "/hang" {
		fmt.Fprint(w, "a")
		return
	}
	h.in <- struct{}{}
	_, _ = io.Copy(io.Discard, q.Body) // or a hang-up is not noticed
	<-q.Context().Done()
}

// hangs serves by "a" with two credits.
func (r *rig) hangs() *hanging {
	r.t.Helper()
	h, a := r.host("h1"), &hanging{in: make(chan struct{})}
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.backend(a)}, 2)
	r.tables.publish(1, route("hello", 1))
	h.synced()
	return a
}

// sibling answers everything: what is idle is picked before what hangs.
func (r *rig) sibling() {
	r.t.Helper()
	h := r.host("h2")
	h.offer(instance{ID: "b", Service: "hello", Revision: "hello-00001", Address: r.backend(named("b"))}, 8)
	h.synced()
	r.answeredBy("b")
}

// stuck is a caller whose request hangs at "a".
func (r *rig) stuck(a *hanging, ask string) net.Conn {
	r.t.Helper()
	c := r.dial(ask)
	select {
	case <-a.in:
	case <-time.After(20 * time.Second):
		r.t.Fatal("a request did not come to it")
	}
	return c
}

// answeredBy sends requests until this one has answered.
func (r *rig) answeredBy(name string) {
	r.t.Helper()
	until(r.t, "an answer of "+name, func() bool {
		_, body := r.get("hello.localhost", "/")
		return body == name
	})
}

func TestAnInstanceThatAnswersNobodyWhileItsSiblingsDoFailsThoseWhoGiveUpOnIt(t *testing.T) {
	for name, ask := range map[string]string{
		"without a body":        whole,
		"with a small body":     "POST /hang HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 5\r\n\r\nhello",
		"with a body in chunks": "POST /hang HTTP/1.1\r\nHost: hello.localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *gateway.Config) { c.AbandonedAfter = giveUp })
			w := r.reports(followed)
			a := r.hangs()
			first, second := r.stuck(a, ask), r.stuck(a, ask)
			r.sibling()
			asked := time.Now()
			until(t, "they waited for long enough", func() bool { return time.Since(asked) > 2*giveUp })
			first.Close()
			second.Close()
			until(t, "the report of two who gave up", func() bool { return w.saw("a") == [3]uint32{0, 2, 0} && w.gaveUp("a") == 2 })
			if n := r.metric("fairlead_gateway_unanswered_total"); n != 2 {
				t.Errorf("%v are counted", n)
			}
		})
	}
}

func TestACallerThatGivesUpIsNoFailureOfAnInstanceThatMayJustTakeItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		ask   string
		then  func(r *rig) // while it waits
	}{
		"it answered somebody else meanwhile":   {giveUp, whole, func(r *rig) { r.answeredBy("a"); r.sibling() }},
		"no sibling answered meanwhile":         {giveUp, whole, func(*rig) {}},
		"nobody waited for long":                {time.Hour, whole, (*rig).sibling},
		"it never had all of what was asked":    {giveUp, "POST /hang HTTP/1.1\r\nHost: hello.localhost\r\nContent-Length: 100000\r\n\r\nhello", (*rig).sibling},
		"nor of what was asked of it in chunks": {giveUp, "POST /hang HTTP/1.1\r\nHost: hello.localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", (*rig).sibling},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(cfg *gateway.Config) { cfg.AbandonedAfter = c.after })
			w := r.reports(followed)
			a := r.hangs()
			caller := r.stuck(a, c.ask)
			c.then(r)
			asked := time.Now()
			until(t, "it waited for long enough", func() bool { return time.Since(asked) > 2*giveUp })
			caller.Close()
			r.leases(0)
			before := w.saw("a")[0]
			r.answeredBy("a")
			until(t, "a report after it", func() bool { return w.saw("a")[0] > before })
			if got := w.saw("a"); got[1] != 0 || w.gaveUp("a") != 0 {
				t.Errorf("reported are ok, failed, refused %v", got)
			}
		})
	}
}
