package host_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// voice is an instance's way to its host.
type voice struct{ url, token string }

// voiceOf reads it from the instance's environment.
func voiceOf(t *testing.T, in *pb.InstanceReport) (v voice) {
	t.Helper()
	for line := range strings.Lines(get(t, in.GetAddress(), "/")) {
		line = strings.TrimSpace(line)
		if url, ok := strings.CutPrefix(line, "FAIRLEAD_SELF_URL="); ok {
			v.url = url
		}
		if token, ok := strings.CutPrefix(line, "FAIRLEAD_SELF_TOKEN="); ok {
			v.token = token
		}
	}
	return v
}

func (v voice) say(t *testing.T, method, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, v.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+v.token)
	once := &http.Transport{DisableKeepAlives: true}
	resp, err := once.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// discarded :: reason → count
func discarded(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return out
}

func TestAnInstanceSpeaksForItselfAndForNobodyElse(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := startIn(t, filepath.Join(t.TempDir(), "host"), func(c *host.Config) { c.Metrics = reg })
	r.assign(t, hosttest.TemplateOf(hosttest.Env))
	in := r.awaitLive(t)
	v := voiceOf(t, in)
	if !strings.HasPrefix(v.url, "http://127.0.0.1:") || !strings.HasPrefix(v.token, in.GetId()+".") {
		t.Fatalf("its environment has %+v", v)
	}
	if status, text := v.say(t, "PUT", `{"ready":false,"dependencies":{"database":{"degraded":0.625,"detail":"slow"},"cache":{"degraded":0}}}`); status != http.StatusNoContent {
		t.Fatalf("its word is answered by %d %s", status, text)
	}
	word := r.await(t, "its word in the report", func(in *pb.InstanceReport) bool { return in.GetWord() != nil }).GetWord()
	if fmt.Sprint(word.GetUnready(), word.GetDraining(), word.GetDependencies()) != fmt.Sprint(true, false, []*pb.DependencyWord{
		{Name: "cache"}, {Name: "database", Degraded: 625, Detail: "slow"},
	}) {
		t.Errorf("the report has %v", word)
	}
	if _, text := v.say(t, "GET", ""); strings.TrimSpace(text) != `{"instance":"`+in.GetId()+`","ready":false,"draining":false,"dependencies":{"cache":{"degraded":0},"database":{"degraded":0.625,"detail":"slow"}}}` {
		t.Errorf("it is told that it said %s", text)
	}
	forged := voice{v.url, "01ABC" + v.token[len("01ABC"):]}
	for _, c := range []struct {
		by     voice
		body   string
		status int
		reason string
	}{
		{forged, `{"ready":true}`, 401, "unknown-token"},
		{voice{v.url, in.GetId() + "." + strings.Repeat("0", 32)}, `{"ready":true}`, 401, "unknown-token"},
		{voice{v.url, ""}, `{"ready":true}`, 401, "unknown-token"},
		{v, `{"instance":"01ABC","ready":true}`, 403, "not-itself"},
		{v, `{"dependencies":{"database":{"degraded":1.5}}}`, 400, "out-of-range"},
		{v, `{"dependencies":{"":{"degraded":1}}}`, 400, "out-of-range"},
		{v, `{"dependencys":{}}`, 400, "out-of-range"},
		{v, `{} {}`, 400, "out-of-range"},
		{v, `{"draining":` + strings.Repeat(" ", 1<<20) + `true}`, 400, "out-of-range"},
	} {
		before := discarded(t, reg)[c.reason]
		status, text := c.by.say(t, "PUT", c.body)
		if status != c.status || text == "" || discarded(t, reg)[c.reason] != before+1 {
			t.Errorf("%.60s: answered by %d %s, want %d; counted %v", c.body, status, text, c.status, discarded(t, reg))
		}
	}
	if r.awaitLive(t).GetWord().String() != word.String() {
		t.Error("what was refused changed its word")
	}
	if status, _ := v.say(t, "PUT", `{"instance":"`+in.GetId()+`"}`); status != http.StatusNoContent {
		t.Errorf("it may name itself: %d", status)
	}
	r.await(t, "its word taken back", func(in *pb.InstanceReport) bool { return in.GetWord() == nil })
	if err := r.Stop(service.Stop{Slot: in.GetSlot()}); err != nil {
		t.Fatal(err)
	}
	until(t, "no instance", func() bool { return len(r.Reports()) == 0 })
	if status, _ := v.say(t, "PUT", `{}`); status != http.StatusUnauthorized {
		t.Errorf("one that is gone is heard: %d", status)
	}
}

func TestAnInstanceSpeaksOnToAHostThatWasRestarted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	keep := func(c *host.Config) { c.KeepInstances = true }
	first := startIn(t, dir, keep)
	first.assign(t, hosttest.TemplateOf(hosttest.Env))
	v := voiceOf(t, first.awaitLive(t))
	first.end(t)
	second := startIn(t, dir, nil)
	second.awaitLive(t)
	if status, text := v.say(t, "PUT", `{"draining":true}`); status != http.StatusNoContent {
		t.Fatalf("after the restart its word is answered by %d %s", status, text)
	}
	second.await(t, "its word in the report", func(in *pb.InstanceReport) bool { return in.GetWord().GetDraining() })
}
