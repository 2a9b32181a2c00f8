package agent_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/agent"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
)

func TestOneWorkloadThatAsksTooMuchAtOnceIsRefusedAndCountedAndTheOthersAreAnswered(t *testing.T) {
	p := resolvertest.New(t)
	metrics := prometheus.NewRegistry()
	l := start(t, p, t.TempDir(), agent.Config{AtOnce: 2, Metrics: metrics, Tokens: map[string]string{"token-of-the-web": "web", "token-of-the-job": "job"}})
	ctx, cancel := context.WithCancel(t.Context())
	var greedy sync.WaitGroup
	for range 2 { // who have a request each that waits for a view, again and again
		greedy.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.address+"/v1/pick/nowhere?wait=1s", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer token-of-the-job")
				if resp, err := l.port.Do(req); err == nil {
					_ = resp.Body.Close()
				}
			}
		})
	}
	var a answer
	for end := time.Now().Add(20 * time.Second); a.status != http.StatusTooManyRequests && time.Now().Before(end); {
		a = l.by("token-of-the-job", "/v1/status")
	}
	if a.status != http.StatusTooManyRequests || a.text("code") != "exhausted" || !strings.Contains(a.text("error"), "2 requests of workload job") || a.text("hint") == "" {
		t.Errorf("one more is answered %v", a)
	}
	for range 5 {
		if a := l.by("token-of-the-web", "/v1/status"); a.status != http.StatusOK {
			t.Errorf("another workload is answered %v", a)
		}
	}
	cancel()
	greedy.Wait()
	for end := time.Now().Add(20 * time.Second); a.status != http.StatusOK && time.Now().Before(end); {
		a = l.by("token-of-the-job", "/v1/status")
	}
	if a.status != http.StatusOK {
		t.Errorf("once they have ended it is answered %v", a)
	}
	counted := 0.0
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if f.GetName() == "fairlead_agent_requests_total" && label.GetValue() == "exhausted" {
					counted += m.GetCounter().GetValue()
				}
			}
		}
	}
	if counted == 0 {
		t.Error("it is not counted")
	}
}
