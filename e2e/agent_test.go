package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// agentCaller is a program of another language, as far as an agent can tell: it
// speaks plain HTTP on the agent's socket, and calls whom it is told to.
type agentCaller struct {
	t       *testing.T
	service string
	agent   *http.Client
	callees *http.Client
}

func newAgentCaller(t *testing.T, socket, service string) *agentCaller {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	c := &agentCaller{
		t: t, service: service, agent: &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 10 * time.Second},
		callees: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second},
	}
	t.Cleanup(c.agent.CloseIdleConnections)
	return c
}

// pick one endpoint, none of those that were tried.
func (c *agentCaller) pick(tried []string) (pick, instance, address string, err error) {
	url := "http://agent/v1/pick/" + c.service + "?wait=1s"
	for _, id := range tried {
		url += "&exclude=" + id
	}
	resp, err := c.agent.Get(url)
	if err != nil {
		return "", "", "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", "", "", fmt.Errorf("%s: %s, %w", resp.Status, body, err)
	}
	var m struct {
		Pick     string
		Endpoint struct{ Instance, Address string }
	}
	err = json.Unmarshal(body, &m)
	return m.Pick, m.Endpoint.Instance, m.Endpoint.Address, err
}

func (c *agentCaller) tell(pick, outcome string) error {
	resp, err := c.agent.Post("http://agent/v1/outcomes", "application/json", strings.NewReader(`{"outcomes":[{"pick":"`+pick+`","outcome":"`+outcome+`"}]}`))
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// call makes one request, at another endpoint where one refuses it.
func (c *agentCaller) call() error {
	var tried []string
	for {
		pick, instance, address, err := c.pick(tried)
		if err != nil {
			return fmt.Errorf("after %v: %w", tried, err)
		}
		resp, err := c.callees.Get("http://" + address + "/")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return c.tell(pick, "good")
			}
		}
		if terr := c.tell(pick, "refused"); terr != nil {
			return terr
		}
		tried = append(tried, instance)
	}
}

// calls makes so many, and fails the test for each that fails.
func (c *agentCaller) calls(n int) {
	c.t.Helper()
	for range n {
		if err := c.call(); err != nil {
			c.t.Errorf("a call failed: %v", err)
			return
		}
	}
}

func (f *fleet) startAgent(identity, socket string) *process {
	f.t.Helper()
	p := f.start("agent", "--identity", identity, "--control", f.api, "--socket", socket, "--data", filepath.Join(f.data, "machine"), "--ops", "127.0.0.1:0", "--listen", "127.0.0.1:0")
	p.waitFor("agent is up", 20*time.Second)
	return p
}

func TestAnAgentsCallerDoesNotFailWhileEverythingElseIsKilledForGoodAndTheAgentIsRestarted(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	identity, socket := filepath.Join(f.data, "m1"), filepath.Join(f.data, "agent.sock")
	f.must("identity", "caller", "m1", "--out", identity)
	f.must("deploy", "hello", "--instances", "3", "--", testapp)
	a := f.startAgent(identity, socket)
	c := newAgentCaller(t, socket, "hello")
	eventually(t, time.Minute, "the agent knows all three", func() bool {
		return strings.Count(f.run("resolve", "hello", "--agent", socket, "--wait", "1s").stdout, "eligible") == 3
	})
	c.calls(100)
	if out := f.must("resolve", "hello", "--agent", socket).stdout; !strings.Contains(out, "from stream; the plane was heard") || strings.Count(out, "eligible") != 3 {
		t.Errorf("it holds:\n%s", out)
	}
	if out := f.must("resolve", "hello").stdout; !strings.Contains(out, "published") || strings.Count(out, "eligible") != 3 {
		t.Errorf("published is:\n%s", out)
	}
	pids := f.pidsOf("hello", 3)

	// Everything is killed for good but the agent, its callers and the callees; they call on meanwhile.
	var calling sync.WaitGroup
	for range 4 {
		calling.Go(func() { c.calls(150) })
	}
	f.control.kill()
	f.gw.kill()
	f.host.kill()
	calling.Wait()
	for _, pid := range pids[:2] {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.calls(100)
	}

	// The agent is killed too, and started anew in the outage.
	a.kill()
	f.startAgent(identity, socket)
	c.calls(100)
	if out := f.must("resolve", "hello", "--agent", socket).stdout; !strings.Contains(out, "from disk; the plane is not heard") {
		t.Errorf("after its restart it holds:\n%s", out)
	}
}
