package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fairlead-platform/fairlead/internal/agent"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// local is an agent on a socket and a port of this machine.
type local struct {
	t            *testing.T
	socket, port *http.Client
	address      string // of the port
	end          func()
}

// start runs an agent whose state is in dir, until end or the test's end.
func start(t *testing.T, p *resolvertest.Plane, dir string, cfg agent.Config) *local {
	t.Helper()
	rc := p.Config(dir)
	rc.FirstView = -1
	r, err := resolver.Open(t.Context(), rc)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Resolver, cfg.Role, cfg.Name = r, "agent", "m1"
	a, err := agent.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.sock")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	byUser := &http.Server{Handler: a.OnSocket(), ConnContext: a.SocketContext}
	byToken := &http.Server{Handler: a.OnPort()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 3)
	go func() { ended <- byUser.Serve(unix) }()
	go func() { ended <- byToken.Serve(tcp) }()
	go func() { ended <- a.Run(ctx) }()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	l := &local{t: t, address: tcp.Addr().String(), socket: &http.Client{Transport: &http.Transport{DialContext: dial}}, port: &http.Client{Transport: &http.Transport{}}}
	once := false
	l.end = func() {
		if once {
			return
		}
		once = true
		cancel()
		l.socket.CloseIdleConnections()
		l.port.CloseIdleConnections()
		_, _ = byUser.Close(), byToken.Close()
		for range 3 {
			<-ended
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(l.end)
	return l
}

// answer is a status and what the body says.
type answer struct {
	status int
	body   map[string]any
}

func (a answer) text(key string) string { return fmt.Sprint(a.body[key]) }

func (l *local) ask(c *http.Client, method, url, token, body string) answer {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode}
	if err := json.Unmarshal(raw, &a.body); err != nil {
		l.t.Fatalf("%s: %v", raw, err)
	}
	return a
}

func (l *local) get(path string) answer {
	l.t.Helper()
	return l.ask(l.socket, http.MethodGet, "http://agent"+path, "", "")
}

func (l *local) by(token, path string) answer {
	l.t.Helper()
	return l.ask(l.port, http.MethodGet, "http://"+l.address+path, token, "")
}

// waits asks until it is answered with 200: views come by a stream.
func (l *local) waits(path string) answer {
	l.t.Helper()
	a := l.get(path + "?wait=1s")
	for end := time.Now().Add(20 * time.Second); a.status != http.StatusOK && time.Now().Before(end); {
		a = l.get(path + "?wait=1s")
	}
	if a.status != http.StatusOK {
		l.t.Fatalf("%s: %v", path, a)
	}
	return a
}

func (l *local) tell(outcomes string) answer {
	l.t.Helper()
	return l.ask(l.socket, http.MethodPost, "http://agent/v1/outcomes", "", `{"outcomes":[`+outcomes+`]}`)
}

func TestAnAgentThatIsRestartedDuringTheOutageAnswersFromDiskBeforeAnyConnection(t *testing.T) {
	p := resolvertest.New(t)
	p.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:9"))
	dir := t.TempDir()
	first := start(t, p, dir, agent.Config{})
	if e := first.waits("/v1/pick/payments").body["endpoint"].(map[string]any); e["instance"] != "i1" || e["address"] != "127.0.0.1:9" {
		t.Fatalf("picked %v", e)
	}
	awaitKept(t, dir)
	first.end()
	p.Stop()
	again := start(t, p, dir, agent.Config{})
	a := again.get("/v1/pick/payments")
	if a.status != http.StatusOK || a.body["endpoint"].(map[string]any)["instance"] != "i1" {
		t.Errorf("after a restart in the outage: %v", a)
	}
	r := again.get("/v1/resolve/payments")
	if r.status != http.StatusOK || r.text("source") != "disk" || r.text("connected") != "false" {
		t.Errorf("it says %v", r)
	}
	if s := again.get("/v1/status"); s.text("connected") != "false" || len(s.body["views"].([]any)) != 1 {
		t.Errorf("its status is %v", s)
	}
}

// awaitKept waits until the view is on disk, of which there is no signal here.
func awaitKept(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		found, err := filepath.Glob(filepath.Join(dir, "fairlead", "views", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(found, func(f string) bool { return strings.Contains(filepath.Base(f), "payments") }) {
			return
		}
	}
	t.Fatal("the view is not on disk")
}

func TestTheFirstRequestForAServiceWaitsAtMostASecondAndOnlyWhereItIsAskedTo(t *testing.T) {
	p := resolvertest.New(t)
	l := start(t, p, t.TempDir(), agent.Config{})
	took := func(path string) (time.Duration, answer) {
		began := time.Now()
		a := l.get(path)
		return time.Since(began), a
	}
	waited, a := took("/v1/pick/nowhere?wait=1h")
	if a.status != http.StatusServiceUnavailable || waited < time.Second {
		t.Errorf("waited %s: %v", waited, a)
	}
	for _, path := range []string{"/v1/pick/nobody", "/v1/resolve/nobody", "/v1/pick/nowhere"} {
		at, a := took(path)
		if a.status != http.StatusServiceUnavailable || !strings.Contains(a.text("error"), "no view of ") || a.text("code") != "unavailable" {
			t.Errorf("%s: %v", path, a)
		}
		if at > waited/2 {
			t.Errorf("%s was answered after %s, and one that waits after %s", path, at, waited)
		}
	}
	p.Set("late", resolvertest.Endpoint("i1", "127.0.0.1:9"))
	if a := l.waits("/v1/pick/late"); a.status != http.StatusOK {
		t.Errorf("with a view to come: %v", a)
	}
}

func TestACallerOfAnAgentCannotResolvePickOrReportWhatThePolicyForbids(t *testing.T) {
	p := resolvertest.New(t)
	only := func(allowed ...string) {
		p.Publish(view.Service{Name: "payments", Endpoints: []view.Endpoint{resolvertest.Endpoint("i1", "127.0.0.1:9")}, Callers: allowed})
	}
	only()
	l := start(t, p, t.TempDir(), agent.Config{Tokens: map[string]string{"token-of-the-web": "web", "token-of-the-job": "job"}})
	l.waits("/v1/resolve/payments")
	pick := l.by("token-of-the-job", "/v1/pick/payments").text("pick")
	// The plane of this test knows the agent as a caller, whom the list lets hold the view.
	only("caller/*", "agent/m1/web")
	refused := func() answer { return l.by("token-of-the-job", "/v1/pick/payments") }
	for end := time.Now().Add(20 * time.Second); refused().status == http.StatusOK && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	for _, path := range []string{"/v1/pick/payments", "/v1/resolve/payments"} {
		if a := l.by("token-of-the-job", path); a.status != http.StatusForbidden || !strings.Contains(a.text("error"), "payments does not allow agent/m1/job") {
			t.Errorf("%s by one who is not allowed: %v", path, a)
		}
		if a := l.by("token-of-the-web", path); a.status != http.StatusOK {
			t.Errorf("%s by one who is: %v", path, a)
		}
	}
	a := l.ask(l.port, http.MethodPost, "http://"+l.address+"/v1/outcomes", "token-of-the-job", `{"outcomes":[{"pick":"`+pick+`","outcome":"failed"}]}`)
	if a.text("taken") != "0" || a.text("discarded") != "1" {
		t.Errorf("a report by one who is not allowed: %v", a)
	}
	if s := l.get("/v1/status"); s.text("refused") == "0" {
		t.Errorf("refusals are not counted: %v", s)
	}
}

func TestCallersAreToldApartByTheirUserOrTheirToken(t *testing.T) {
	p := resolvertest.New(t)
	me := uint32(os.Getuid())
	l := start(t, p, t.TempDir(), agent.Config{Workloads: map[uint32]string{me: "mine"}, Tokens: map[string]string{"token-of-the-web": "web"}})
	if s := l.get("/v1/status"); s.text("workload") != "mine" {
		t.Errorf("by the socket it is %v", s)
	}
	if s := l.by("token-of-the-web", "/v1/status"); s.text("workload") != "web" {
		t.Errorf("by its token it is %v", s)
	}
	for _, token := range []string{"", "token-of-the-we", "token-of-the-webs"} {
		if a := l.by(token, "/v1/status"); a.status != http.StatusUnauthorized {
			t.Errorf("with the token %q: %v", token, a)
		}
	}
	if s := start(t, p, t.TempDir(), agent.Config{}).get("/v1/status"); s.text("workload") != fmt.Sprint("uid-", me) {
		t.Errorf("where none is named it is %v", s)
	}
	a := start(t, p, t.TempDir(), agent.Config{Workloads: map[uint32]string{me + 1: "other"}}).get("/v1/status")
	if a.status != http.StatusUnauthorized || !strings.Contains(a.text("hint"), fmt.Sprint("--workload NAME=", me)) {
		t.Errorf("of a user who is none: %v", a)
	}
}

func TestOutcomesReachThePlaneAndThoseOfAnothersPicksDoNot(t *testing.T) {
	p := resolvertest.New(t)
	p.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:9"))
	l := start(t, p, t.TempDir(), agent.Config{Tokens: map[string]string{"token-of-the-web": "web"}})
	l.waits("/v1/resolve/payments")
	mine, theirs := l.get("/v1/pick/payments").text("pick"), l.by("token-of-the-web", "/v1/pick/payments").text("pick")
	a := l.tell(`{"pick":"` + mine + `","outcome":"good","bytes":"100"},{"pick":"` + theirs + `","outcome":"failed"},{"pick":"x","outcome":"failed"}`)
	if a.text("taken") != "1" || a.text("discarded") != "2" {
		t.Errorf("told: %v", a)
	}
	if a := l.tell(`{"pick":"` + mine + `","outcome":"failed"}`); a.text("discarded") != "1" {
		t.Errorf("told twice: %v", a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := p.AwaitOutcomes(ctx, func(o map[string]resolvertest.Outcomes) bool { return o["i1"].OK == 1 })
	if o := p.Outcomes(); err != nil || o["i1"].Failed != 0 {
		t.Errorf("reported %v: %v", o, err)
	}
}

func TestWhatCannotBeMeantIsRefusedWithWhatToSay(t *testing.T) {
	p := resolvertest.New(t)
	p.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:9"))
	l := start(t, p, t.TempDir(), agent.Config{})
	l.waits("/v1/resolve/payments")
	for path, says := range map[string]string{
		"/v1/pick/payments?wait=soon":      "a duration such as 500ms",
		"/v1/pick/payments?waits=1s":       `no parameter "waits"`,
		"/v1/pick/payments?verified=maybe": "verified=prefer",
		"/v1/pick/payments?retry=perhaps":  "retry=true",
		"/v1/pick/Not_A_Name":              "Not_A_Name",
	} {
		if a := l.get(path); a.status != http.StatusBadRequest || !strings.Contains(a.text("error")+a.text("hint"), says) {
			t.Errorf("%s: %v", path, a)
		}
	}
	pick := l.get("/v1/pick/payments").text("pick")
	if a := l.tell(`{"pick":"` + pick + `","outcome":"good"},{"pick":"x","outcome":"fine"}`); a.status != http.StatusBadRequest || !strings.Contains(a.text("error"), `outcome 2 is "fine"`) {
		t.Errorf("an outcome that there is not: %v", a)
	}
	if a := l.tell(`{"pick":"` + pick + `","outcome":"good"}`); a.text("taken") != "1" {
		t.Errorf("a report that was refused took a part: %v", a)
	}
	if a := l.get("/v1/pick/payments?exclude=i1"); a.status != http.StatusServiceUnavailable || !strings.Contains(a.text("error"), "no endpoint is as asked for") {
		t.Errorf("with all excluded: %v", a)
	}
}

func TestNamesThatNobodyServesDoNotPileUp(t *testing.T) {
	p := resolvertest.New(t)
	p.Set("payments", resolvertest.Endpoint("i1", "127.0.0.1:9"))
	l := start(t, p, t.TempDir(), agent.Config{})
	l.waits("/v1/resolve/payments")
	for i := range 300 {
		l.get(fmt.Sprint("/v1/resolve/nobody-", i))
	}
	views := map[string]bool{} // :: service
	for _, v := range l.get("/v1/status").body["views"].([]any) {
		views[v.(map[string]any)["service"].(string)] = true
	}
	if len(views) > 210 || !views["payments"] || !views["nobody-299"] || views["nobody-0"] {
		t.Errorf("%d are subscribed to: %v", len(views), slices.Sorted(maps.Keys(views)))
	}
}
