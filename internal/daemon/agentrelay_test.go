package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/cli"
)

// TestAnAgentFollowsARelay that it is named, is answered by it while control is
// away, also for a service that it asks for only then, and reports to it.
func TestAnAgentFollowsARelay(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	data := folder(t)
	control, api := startControl(t, data, anyPort)
	relay := run(t, relayOf(cli.Joining{Name: "r1", Control: []string{api}, Token: token(t, data, "relay")}, anyPort), folder(t))
	atRelay := relay.waitFor(`subscribers ([0-9.:]+)`)[1]
	for _, service := range []string{"pay", "mail"} {
		if code, _, errs := fairlead(t, data, "external", "set", service, "--endpoint", "127.0.0.1:9,z"); code != 0 {
			t.Fatal(errs)
		}
		says(t, data, "127.0.0.1:9", "resolve", service)
	}
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("web token-of-the-web-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(name, identity string) (ask func(path string) (status int, body map[string]any)) {
		agentData := folder(t)
		a := run(t, agentOf(cli.AgentOptions{
			Joining: cli.Joining{Name: name, Control: []string{atRelay}}, Identity: identity,
			Socket: filepath.Join(filepath.Dir(agentData), name+".sock"), Listen: anyPort, Tokens: tokens,
		}), agentData)
		port := a.waitFor(`agent is up: ` + name + ` on \S+ and http://([0-9.:]+)/`)[1]
		return func(path string) (int, map[string]any) {
			t.Helper()
			method, body := http.MethodGet, ""
			if path, body, _ = strings.Cut(path, " "); body != "" {
				method = http.MethodPost
			}
			req, err := http.NewRequestWithContext(ctx, method, "http://"+port+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer token-of-the-web-1")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]any{}
			if err := json.Unmarshal(raw, &out); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			return resp.StatusCode, out
		}
	}
	picks := func(ask func(string) (int, map[string]any), service string) string {
		t.Helper()
		var last map[string]any
		if until(ctx, func() bool {
			status, body := ask("/v1/pick/" + service + "?wait=1s")
			last = body
			return status == http.StatusOK
		}) != nil {
			t.Fatalf("a pick of %s: %v", service, last)
		}
		id, _ := last["pick"].(string)
		return id
	}
	first := start("m1", callerAt(t, data, "m1"))
	picks(first, "pay")
	if _, s := first("/v1/status"); s["plane"] != atRelay || s["connected"] != true {
		t.Errorf("it follows %v", s)
	}
	picks(first, "mail") // so that the relay holds it
	second := callerAt(t, data, "m2")
	stopped(t, control)
	late := start("m2", second)
	pick := picks(late, "mail")
	if _, s := late("/v1/status"); s["plane"] != atRelay || s["connected"] != true {
		t.Errorf("while control is away it follows %v", s)
	}
	if status, got := late(`/v1/outcomes {"outcomes":[{"pick":"` + pick + `","outcome":"good"}]}`); status != http.StatusOK || got["taken"] != "1" && got["taken"] != 1.0 {
		t.Errorf("its report is answered %v", got)
	}
	if until(ctx, func() bool { _, s := late("/v1/status"); return s["reported"] != "0" }) != nil {
		_, s := late("/v1/status")
		t.Errorf("it is not reported: %v", s)
	}
}
