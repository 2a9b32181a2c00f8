package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ask sends one GET by an entrance, and says which instance answered; empty is
// none, or a failure.
func (w *world) ask(address, service string) (instance string, code int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		w.t.Error(err)
		return "", 0
	}
	req.Host = service + ".localhost"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", 0
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if f := strings.Fields(string(b)); err == nil && resp.StatusCode == http.StatusOK && len(f) > 1 {
		return f[1], resp.StatusCode
	}
	return "", resp.StatusCode
}

// answers are who answers so many requests by an entrance: :: instance → answers;
// the empty one is failures.
func (w *world) answers(address, service string, n int) map[string]int {
	got := map[string]int{}
	for range n {
		id, _ := w.ask(address, service)
		got[id]++
	}
	return got
}

// keepAsking has callers ask by each entrance until the returned function.
func (w *world) keepAsking(service string, addresses ...string) (stop func()) {
	over := make(chan struct{})
	var callers sync.WaitGroup
	for range 2 {
		for _, address := range addresses {
			callers.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(10 * time.Millisecond):
						w.ask(address, service)
					}
				}
			})
		}
	}
	return sync.OnceFunc(func() {
		close(over)
		callers.Wait()
	})
}

// inView is an instance as its view has it.
type inView struct {
	ID     string
	Weight float64
	Since  time.Time
}

func (w *world) inView(service, id string) inView {
	w.t.Helper()
	var all struct{ Instances []inView }
	out := w.must("instances", service, "-o", "json").stdout
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		w.t.Fatalf("cannot read instances: %v\n%s", err, out)
	}
	for _, i := range all.Instances {
		if i.ID == id {
			return i
		}
	}
	return inView{}
}

func (w *world) weight(service, id string) float64 { return w.inView(service, id).Weight }

// spared waits until so many requests by an entrance went well and none of them
// to the instance.
func (w *world) spared(address, service, id string) {
	w.t.Helper()
	eventually(w.t, time.Minute, "requests by "+address+" go well, and none to "+id, func() bool {
		got := w.answers(address, service, 60)
		return got[id] == 0 && got[""] == 0 && len(got) == 2
	})
}

// viewsHeld counts the current views of connected gateways.
func (w *world) viewsHeld() (n int) {
	w.t.Helper()
	var all struct {
		Gateways []struct {
			Views, ViewsBehind int
			ViewsConnected     bool
		}
	}
	out := w.must("gateways", "-o", "json").stdout
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		w.t.Fatalf("cannot read gateways: %v\n%s", err, out)
	}
	for _, g := range all.Gateways {
		if g.ViewsConnected {
			n += g.Views - g.ViewsBehind
		}
	}
	return n
}

func TestGatewaysPickByTheViewsThatTheyHoldWhateverHappensToControl(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.must("deploy", "hello", "--instances", "3", "--", testapp)
	one, two := p.entrances[0].address, p.entrances[1].address
	stop := p.keepAsking("hello", one, two)
	defer stop()
	ill := p.status("hello").Instances[0]
	eventually(t, time.Minute, "outcomes of all three are known", func() bool {
		return strings.Contains(p.must("explain", "hello/"+ill.ID).stdout, "0% of about")
	})
	if err := syscall.Kill(ill.Pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "the one that fails a third of its requests is out", func() bool {
		return p.instances("hello")[ill.ID].Verdict == "ineligible"
	})
	eventually(t, 10*time.Second, "both gateways are known to pick by the published view", func() bool {
		return strings.Contains(p.must("status", "hello").stdout, "picked by: gateway/gw1, gateway/gw2\n") &&
			strings.Contains(p.must("explain", "hello/"+ill.ID).stdout, "picked by: gateway/gw1, gateway/gw2\n") && p.viewsHeld() == 2
	})
	p.control.kill() // before its trial
	p.spared(one, "hello", ill.ID)
	p.spared(two, "hello", ill.ID)
	stop()

	p.gateways[0].kill()
	p.gateways[0].again()
	for _, address := range []string{one, two} {
		var got map[string]int
		eventually(t, 30*time.Second, "both hosts have given the gateway credits again", func() bool {
			got = p.answers(address, "hello", 30)
			if got[ill.ID] != 0 {
				t.Fatalf("without control, by %s, after a gateway was started again: %v; %s is out", address, got, ill.ID)
			}
			return got[""] == 0 && len(got) == 2
		})
	}
	p.control.again()
	eventually(t, time.Minute, "another leader has it out as well", func() bool {
		out := p.run("instances", "hello")
		return out.code == 0 && strings.Contains(out.stdout, "ineligible")
	})
	eventually(t, 30*time.Second, "both gateways pick by the views of another leader", func() bool {
		return strings.Contains(p.must("status", "hello").stdout, "picked by: gateway/gw1, gateway/gw2\n")
	})
	if got := p.answers(one, "hello", 30); got[""] != 0 || got[ill.ID] != 0 {
		t.Errorf("under another leader: %v", got)
	}
}

func TestAStoppedInstanceLeavesAndComesBackByTheRampAndWhereAllAreOutAllAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--instances", "3", "--ready-path", "/", "--", testapp)
	contract := filepath.Join(w.data, "contract.yaml")
	if err := os.WriteFile(contract, []byte("returnAfter: 10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.must("contract", "set", "hello", "-f", contract)
	all := w.status("hello").Instances
	signal := func(s syscall.Signal, some ...instance) {
		t.Helper()
		for _, i := range some {
			if err := syscall.Kill(i.Pid, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	// One of three is stopped, and goes on.
	signal(syscall.SIGSTOP, all[0])
	eventually(t, time.Minute, "the stopped one is out", func() bool { return w.weight("hello", all[0].ID) == 0 })
	w.spared(w.gateway, "hello", all[0].ID)
	settled := w.inView("hello", all[1].ID).Since.Add(62 * time.Second) // they came into rotation together
	eventually(t, 2*time.Minute, "the others are past their own ramp of a minute", func() bool { return time.Now().After(settled) })
	signal(syscall.SIGCONT, all[0])
	eventually(t, 2*time.Minute, "it is back, at the ramp's first step", func() bool { return w.weight("hello", all[0].ID) > 0 })
	if got := w.weight("hello", all[0].ID); got != 0.1 && got != 0.25 {
		t.Errorf("it comes back with weight %v", got)
	}
	eventually(t, 20*time.Second, "it is sent its share", func() bool {
		got := w.answers(w.gateway, "hello", 100)
		return got[all[0].ID] > 0 && got[all[0].ID] <= 20 && got[""] == 0
	})
	// All three are stopped: the guard has them all served, and what goes on answers.
	signal(syscall.SIGSTOP, all...)
	eventually(t, time.Minute, "all are out by their verdicts", func() bool {
		for _, s := range w.instances("hello") {
			if s.Verdict != "ineligible" {
				return false
			}
		}
		return w.weight("hello", all[0].ID) == 1
	})
	signal(syscall.SIGCONT, all...)
	eventually(t, 10*time.Second, "they answer again", func() bool {
		got := w.answers(w.gateway, "hello", 30)
		return got[""] == 0 && len(got) > 1
	})
	for id, s := range w.instances("hello") {
		if s.Verdict == "eligible" {
			t.Errorf("%s is eligible already: it was not shown that the guard serves it: %+v", id, s)
		}
	}
}
