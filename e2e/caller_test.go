package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// request is a GET, or a POST that is executed under a key of its own.
type request struct {
	path string
	key  string // of a POST; empty is a GET
}

// answer is what came of one request at one gateway.
type answer struct {
	code       int
	body       string
	named      string // the revision that the gateway says it leased
	err        error
	sent, over time.Time
}

// revision that answered, by its own word.
func (a answer) revision() string {
	revision, _, _ := strings.Cut(a.body, " ")
	return revision
}

// caller sends requests all the time through every gateway of a plant that is
// there, and is the oracle of what became of them: it knows what was dead when,
// which revisions may answer, and what the instances executed.
type caller struct {
	plant    *plant
	service  string
	began    time.Time // tells its keys from those of an earlier caller
	stopped  chan struct{}
	wg       sync.WaitGroup
	answered atomic.Int64
	next     atomic.Int64

	mu      sync.Mutex
	allowed []era
	posts   map[string]answer // :: key → what came of it
	seen    map[string]int    // :: revision → answers
	found   verdict
}

// era is a time in which only the named revisions may answer; none is any.
type era struct {
	from      time.Time
	revisions []string
}

// verdict is what the oracle found.
type verdict struct {
	lost    []string      // gateway and instance lived, yet no answer
	doubled []string      // executed twice
	wrong   []string      // answered by a revision that was not to
	apart   int           // held by a gateway or an instance that was killed
	slowest time.Duration // of those, from the death to the end
	late    []string      // those that did not end at once
}

// pace is how long an instance takes for a request of the caller.
const pace = 25 * time.Millisecond

// atOnce is how soon what a dead one held has to end.
const atOnce = 2 * time.Second

// patience is how long a caller waits for an answer.
const patience = 60 * time.Second

// call starts workers of which each keeps a connection to every gateway.
func (p *plant) call(service string, workers int, revisions ...string) *caller {
	c := &caller{plant: p, service: service, began: time.Now(), stopped: make(chan struct{}), posts: map[string]answer{}, seen: map[string]int{}}
	c.expect(revisions...)
	for n := range workers {
		c.wg.Go(func() { c.work(n) })
	}
	p.t.Cleanup(c.stop)
	return c
}

// expect that from now on only the revisions answer what is sent.
func (c *caller) expect(revisions ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allowed = append(c.allowed, era{time.Now(), revisions})
}

func (c *caller) stop() {
	c.mu.Lock()
	select {
	case <-c.stopped:
	default:
		close(c.stopped)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *caller) work(n int) {
	connections := map[string]*connection{} // :: address → kept alive
	defer func() {
		for _, k := range connections {
			k.close()
		}
	}()
	for i := n; ; i++ {
		select {
		case <-c.stopped:
			return
		default:
		}
		r := request{path: "/sleep?for=" + pace.String()}
		if i/2%2 == 0 {
			key := fmt.Sprintf("%d-%d", c.began.UnixNano(), c.next.Add(1))
			r = request{path: "/execute?for=" + pace.String() + "&key=" + key, key: key}
		}
		c.once(connections, i, r)
	}
}

// once sends a request through one gateway; what a dead one held is sent again
// through another where it may be.
func (c *caller) once(connections map[string]*connection, turn int, r request) {
	ways := c.plant.ways()
	for try := range ways {
		d, ok := c.choose(ways, turn+try)
		if !ok {
			time.Sleep(pace) // no gateway is there: there is nobody to ask
			return
		}
		k := connections[d.address]
		if k == nil {
			k = &connection{}
			connections[d.address] = k
		}
		if _, died := c.plant.wasAway(d.gateway, k.used, time.Now()); died {
			k.close() // to the one before it
		}
		if again := c.judge(r, d.gateway, k.send(d.address, c.service, r)); !again {
			return
		}
	}
}

// choose a gateway that is not known to be away.
func (c *caller) choose(ways []entrance, turn int) (entrance, bool) {
	now := time.Now()
	for i := range ways {
		d := ways[(turn+i)%len(ways)]
		if _, away := c.plant.wasAway(d.gateway, now, now); !away {
			return d, true
		}
	}
	return entrance{}, false
}

// judge notes what came of a request, and says whether to send it elsewhere.
func (c *caller) judge(r request, gateway string, a answer) (again bool) {
	died, gone := c.plant.wasAway(gateway, a.sent, a.over)
	held := gone
	if !held {
		died, held = c.plant.wasAway(instancesOf(c.service), a.sent, a.over)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.key != "" {
		c.posts[r.key] = a
	}
	switch {
	case a.err == nil && a.code == http.StatusOK:
		c.answered.Add(1)
		c.seen[a.revision()]++
		if why := c.wrongly(a); why != "" {
			c.found.wrong = append(c.found.wrong, c.say(r, gateway, a, why))
		}
		return false
	case held && (a.err != nil || a.code == http.StatusBadGateway && r.key != ""): // a gateway repeats what is idempotent
		c.found.apart++
		if died.Before(a.sent) {
			died = a.sent
		}
		c.found.slowest = max(c.found.slowest, a.over.Sub(died))
		if a.over.Sub(died) > atOnce {
			c.found.late = append(c.found.late, c.say(r, gateway, a, "the death was at "+died.Format("15:04:05.000")))
		}
		return gone && (r.key == "" || notSent(a.err))
	}
	c.found.lost = append(c.found.lost, c.say(r, gateway, a, ""))
	return false
}

// notSent says that the gateway cannot have seen any of the request.
func notSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// wrongly says why an answer is not one of the revision that was to give it.
func (c *caller) wrongly(a answer) string {
	if a.revision() != a.named {
		return "leased for " + a.named
	}
	var may []string
	for i, e := range c.allowed {
		if e.from.After(a.over) || i+1 < len(c.allowed) && !c.allowed[i+1].from.After(a.sent) {
			continue
		}
		if len(e.revisions) == 0 || slices.Contains(e.revisions, a.revision()) {
			return ""
		}
		may = append(may, e.revisions...)
	}
	return fmt.Sprintf("only %v were to answer", may)
}

func (c *caller) say(r request, gateway string, a answer, why string) string {
	method := "GET"
	if r.key != "" {
		method = "POST " + r.key
	}
	return fmt.Sprintf("%s sent %s to %s, after %s: %d %q %v %s", a.sent.Format("15:04:05.000"), method, gateway,
		a.over.Sub(a.sent).Round(time.Millisecond), a.code, strings.TrimSpace(a.body), a.err, why)
}

// more waits for n more answers.
func (c *caller) more(n int64) {
	c.plant.t.Helper()
	from := c.answered.Load()
	eventually(c.plant.t, 30*time.Second, fmt.Sprintf("%d more answers of %s", n, c.service), func() bool { return c.answered.Load() >= from+n })
}

// verdict stops the caller and reads what was executed.
func (c *caller) verdict() verdict {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	times := map[string][]string{} // :: key → who executed it
	text, err := os.ReadFile(filepath.Join(c.plant.ledger(c.service), "executed"))
	if err != nil {
		c.found.lost = append(c.found.lost, "there is no ledger: "+err.Error())
	}
	for line := range strings.Lines(string(text)) {
		key, who, _ := strings.Cut(strings.TrimSpace(line), " ")
		times[key] = append(times[key], who)
	}
	for key, a := range c.posts {
		switch who := times[key]; {
		case len(who) > 1:
			c.found.doubled = append(c.found.doubled, fmt.Sprintf("%s by %s", key, strings.Join(who, " and ")))
		case a.err == nil && a.code == http.StatusOK && (len(who) == 0 || !strings.HasPrefix(a.body, who[0]+" ")):
			c.found.lost = append(c.found.lost, fmt.Sprintf("%s was answered %q, and executed by %q", key, strings.TrimSpace(a.body), who))
		}
	}
	return c.found
}

// order is which revisions executed, one after the other, as the ledger has it.
func (c *caller) order() []string {
	text, err := os.ReadFile(filepath.Join(c.plant.ledger(c.service), "executed"))
	if err != nil {
		c.plant.t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		out = append(out, strings.Fields(line)[1])
	}
	return slices.Compact(out)
}

// end stops the caller, and fails the test where the verdict is not clean. It
// returns how many answers each revision gave.
func (c *caller) end() map[string]int {
	t := c.plant.t
	t.Helper()
	v := c.verdict()
	for what, list := range map[string][]string{"lost": v.lost, "doubled": v.doubled, "answered by the wrong revision": v.wrong} {
		if len(list) > 0 {
			slices.Sort(list)
			t.Errorf("%s: %d requests were %s, the first:\n%s", c.service, len(list), what, strings.Join(list[:min(len(list), 5)], "\n"))
		}
	}
	if c.answered.Load() == 0 {
		t.Errorf("no request of %s was ever answered", c.service)
	}
	if v.apart > 0 {
		t.Logf("%s: %d answered, and %d held by what was killed, which ended within %s", c.service, c.answered.Load(), v.apart, v.slowest.Round(time.Millisecond))
	}
	if v.slowest > atOnce {
		t.Errorf("%s: what was held by a dead one ended after %s only, of %d such the first:\n%s", c.service, v.slowest, len(v.late), strings.Join(v.late[:min(len(v.late), 5)], "\n"))
	}
	return c.seen
}

// connection is kept alive from request to request. It never sends anything
// twice, which net/http's client does.
type connection struct {
	conn net.Conn
	in   *bufio.Reader
	used time.Time // last
}

func (k *connection) close() {
	if k.conn != nil {
		k.conn.Close()
		k.conn = nil
	}
}

func (k *connection) send(address, service string, r request) (a answer) {
	a.sent = time.Now()
	a.err = k.exchange(address, service, r, &a)
	a.over = time.Now()
	k.used = a.over
	if a.err != nil {
		k.close()
	}
	return a
}

func (k *connection) exchange(address, service string, r request, a *answer) error {
	if k.conn == nil {
		conn, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			return err
		}
		k.conn, k.in = conn, bufio.NewReader(conn)
	}
	if err := k.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	method := http.MethodGet
	if r.key != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, "http://"+address+r.path, http.NoBody)
	if err != nil {
		return err
	}
	req.Host = service + ".localhost"
	if err := req.Write(k.conn); err != nil {
		return err
	}
	resp, err := http.ReadResponse(k.in, req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	a.code, a.body, a.named = resp.StatusCode, string(body), resp.Header.Get("Fairlead-Revision")
	if resp.Close {
		k.close()
	}
	return err
}
