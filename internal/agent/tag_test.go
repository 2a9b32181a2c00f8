package agent_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/agent"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
	"github.com/fairlead-platform/fairlead/view"
)

func TestAPickOfAnAgentByATagIsOfTheRevisionsThatItNames(t *testing.T) {
	p := resolvertest.New(t)
	v := view.Service{Name: "payments", Tags: []view.Tag{{Name: "canary", Revisions: []string{"new"}}}}
	for i, revision := range []string{"old", "old", "new"} {
		e := resolvertest.Endpoint(fmt.Sprint("i", i), "127.0.0.1:9")
		e.Revision = revision
		v.Endpoints = append(v.Endpoints, e)
	}
	p.Publish(v)
	l := start(t, p, t.TempDir(), agent.Config{})
	l.waits("/v1/resolve/payments")
	for range 20 {
		a := l.get("/v1/pick/payments?tag=canary")
		if e, _ := a.body["endpoint"].(map[string]any); a.status != http.StatusOK || e["instance"] != "i2" {
			t.Fatalf("by the tag it is answered %v", a)
		}
	}
	if a := l.get("/v1/pick/payments?tag=nightly"); a.status != http.StatusServiceUnavailable {
		t.Errorf("by a tag that there is not it is answered %v", a)
	}
}
