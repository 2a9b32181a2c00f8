package gateway_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/gateway"
	"github.com/fairlead-platform/fairlead/view"
)

func TestARestartKeepsThePollPort(t *testing.T) {
	dir := t.TempDir()
	in := func(c *gateway.Config) { c.Dir = dir }
	first := newRig(t, in)
	port := first.g.PollAddr().String()
	first.stop()
	second := newRig(t, in)
	if got := second.g.PollAddr().String(); got != port {
		t.Errorf("hosts dial %s, and before %s", got, port)
	}
	second.stop()
	l, err := net.Listen("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := newRig(t, in).g.PollAddr().String(); got == port {
		t.Errorf("the port %s is another's", got)
	}
}

func TestASecondGatewayOnAFolderIsRefused(t *testing.T) {
	r := newRig(t)
	_, err := gateway.New(gateway.Config{
		Name: "g2", Session: "s2", Dir: r.dir, Tables: &tables{}, Public: "127.0.0.1:0", Poll: "127.0.0.1:0",
	})
	if err == nil || !strings.Contains(err.Error(), "another gateway uses it") {
		t.Errorf("the second gateway: %v", err)
	}
}

func TestAGatewayServesFromTheTableThatIsHeldAtTheStart(t *testing.T) {
	held := &tables{}
	held.publish(7, route("hello", 1))
	r := newRig(t, func(c *gateway.Config) { c.Tables = held })
	h := r.host("h1")
	h.offer(instance{ID: "a", Service: "hello", Revision: "hello-00001", Address: r.backend(answerWith("ok"))}, 1)
	if resp, body := r.get("hello.localhost", "/"); body != "ok" || resp.Header.Get("Fairlead-Table") != "7f/1/7" {
		t.Errorf("answered %q under %s", body, resp.Header.Get("Fairlead-Table"))
	}
	if v := r.g.Serves(); v.Counter != 7 {
		t.Errorf("it serves %s", v)
	}
}

func TestTheEndLetsRequestsInFlightFinish(t *testing.T) {
	said := make(chan struct{})
	r := newRig(t, func(c *gateway.Config) {
		c.Drain = 20 * time.Second
		c.Stopping = func() { close(said) }
	})
	g := newGate()
	r.serve("hello", 2, g)
	answer := r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil))
	<-g.in
	ended := make(chan struct{})
	go func() { r.stop(); close(ended) }()
	until(t, "nothing is accepted", func() bool {
		c, err := net.Dial("tcp", r.g.PublicAddr().String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(g.open)
	if got := <-answer; got != "200 ok" {
		t.Errorf("answered %q", got)
	}
	<-said
	<-ended
}

func TestTheEndCutsOffWhatOutlastsTheDrain(t *testing.T) {
	r := newRig(t, func(c *gateway.Config) { c.Drain = 50 * time.Millisecond })
	g := newGate()
	r.serve("hello", 1, g)
	leased := r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil))
	<-g.in
	queued := r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil))
	r.waiting(1)
	r.stop()
	for _, a := range []<-chan string{leased, queued} {
		if got := <-a; !strings.HasPrefix(got, "error: ") && !strings.HasPrefix(got, "cut: ") {
			t.Errorf("answered %q", got)
		}
	}
}

func TestRequestsAreCountedByServiceAndClass(t *testing.T) {
	r := newRig(t)
	r.serve("hello", 1, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/no" {
			w.WriteHeader(404)
		}
	}))
	for _, path := range []string{"/", "/", "/no"} {
		r.get("hello.localhost", path)
	}
	r.get("other.localhost", "/")
	for _, c := range []struct {
		service, code string
		want          float64
	}{{"hello", "2xx", 2}, {"hello", "4xx", 1}, {"", "4xx", 1}, {"hello", "5xx", 0}} {
		until(t, "the count of "+c.service+" "+c.code, func() bool {
			return r.metric("fairlead_gateway_requests_total", "service", c.service, "code", c.code) == c.want
		})
	}
	if n := r.metric("fairlead_gateway_table", "incarnation", "7f"); n != 1 {
		t.Errorf("the table in force is counted as %v", n)
	}
}

func TestTheAccessLogNamesTheLease(t *testing.T) {
	var log logBuffer
	r := newRig(t, func(c *gateway.Config) {
		c.AccessLog = slog.New(slog.NewTextHandler(&log, nil))
		c.HideLease = true
	})
	r.serve("hello", 1, answerWith("ok"))
	resp, _ := r.get("hello.localhost", "/path")
	if resp.Header.Get("Fairlead-Revision") != "" {
		t.Error("the lease is shown")
	}
	until(t, "the line is written", func() bool { return strings.Contains(log.String(), "revision=hello-00001") })
	for _, s := range []string{"method=GET", "host=hello.localhost", "path=/path", "status=200", "service=hello", "table=7f/1/1"} {
		if !strings.Contains(log.String(), s) {
			t.Errorf("the line %q does not say %s", log.String(), s)
		}
	}
}

func TestBadRoutesAreRefusedByName(t *testing.T) {
	split := func(p int, group string, allowed ...string) view.Split {
		return view.Split{Revision: "r", Percent: p, Group: group, Allowed: allowed}
	}
	good := view.Route{Service: "hello", Hosts: []string{"www.example.com"}, Splits: []view.Split{split(100, "g", "r")}}
	if err := gateway.RefuseRoute(good); err != nil {
		t.Errorf("a good route is refused: %v", err)
	}
	if err := gateway.RefuseRoute(view.Route{Service: "hello"}); err != nil {
		t.Errorf("a route without traffic is refused: %v", err)
	}
	for want, change := range map[string]func(*view.Route){
		"service name":          func(r *view.Route) { r.Service = "Hello" },
		"is not lower case":     func(r *view.Route) { r.Hosts = []string{"WWW.example.com"} },
		"declared twice":        func(r *view.Route) { r.Hosts = []string{"a.b", "a.b"} },
		"marks tags":            func(r *view.Route) { r.Hosts = []string{"a---b.c"} },
		"must have 1 to 63":     func(r *view.Route) { r.Hosts = []string{"a..b"} },
		"add up to 50":          func(r *view.Route) { r.Splits[0].Percent = 50 },
		"has -1%":               func(r *view.Route) { r.Splits[0].Percent = -1 },
		"allows no revision":    func(r *view.Route) { r.Splits[0].Allowed = nil },
		"names no group":        func(r *view.Route) { r.Splits[0].Group = "" },
		"different revisions":   func(r *view.Route) { r.Splits = []view.Split{split(50, "g", "r"), split(50, "g", "s")} },
		"tag \"t\" is given":    func(r *view.Route) { r.Splits = tagged("t", "t") },
		"tag: label":            func(r *view.Route) { r.Splits = tagged("T") },
		"a limit is negative":   func(r *view.Route) { r.Limits.FirstByte = -1 },
		"a revision without a ": func(r *view.Route) { r.Splits[0].Allowed = []string{""} },
	} {
		r := good
		r.Splits = []view.Split{split(100, "g", "r")}
		change(&r)
		if err := gateway.RefuseRoute(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v is refused with %v, want %q", r, err, want)
		}
	}
}

func tagged(tags ...string) []view.Split {
	out := []view.Split{{Revision: "r", Percent: 100, Group: "g", Allowed: []string{"r"}}}
	for i, t := range tags {
		out = append(out, view.Split{Revision: "s", Group: "h" + string(rune('0'+i)), Allowed: []string{"s"}, Tag: t})
	}
	return out
}

func TestARunThatIsEndedAtOnceGivesEverythingUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g, err := gateway.New(gateway.Config{Name: "g", Session: "s", Dir: t.TempDir(), Tables: &tables{}, Public: "127.0.0.1:0", Poll: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Run(ctx); err != nil {
		t.Errorf("a run that is ended at once: %v", err)
	}
}

func TestAGatewaySaysWhatWaitsByService(t *testing.T) {
	r := newRig(t)
	g := newGate()
	r.serve("hello", 1, g)
	first := r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil))
	<-g.in
	second := r.later(t.Context(), r.request("GET", "hello.localhost", "/", nil))
	r.waiting(1)
	if got := r.g.Waiting(); len(got) != 1 || got["hello"] != 1 {
		t.Errorf("got %v", got)
	}
	close(g.open)
	<-first
	<-second
	if got := r.g.Waiting(); len(got) != 0 {
		t.Errorf("got %v, when nothing waits", got)
	}
}

func TestAGatewaySaysWhichHostsPollIt(t *testing.T) {
	r := newRig(t)
	r.host("b")
	a := r.host("a")
	until(t, "both poll", func() bool { return slices.Equal(r.g.Polled(), []string{"a", "b"}) })
	a.hangUp()
	until(t, "one polls", func() bool { return slices.Equal(r.g.Polled(), []string{"b"}) })
}
