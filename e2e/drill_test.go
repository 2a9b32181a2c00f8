package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// drilled is what a drill prints as JSON.
type drilled struct {
	State   string
	Parties int
	Back    int
	Aborted bool
	Routers []struct {
		Role, Name             string
		Before, After, Current int
	}
	Verdict struct {
		Held             bool
		Against, Notes   []string
		Calls            string
		Failed           string
		Unroutable       string
		Asked            int
		Oldest, Returned string
	}
}

func TestADrillOnARunningSystemShowsThatNotOneCallFailsWithoutControl(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--instances", "2", "--", testapp)
	l := f.startLoad("hello", "/", 4)
	l.more(50)
	d := f.start("drill", "control-plane", "--for", "6s", "--yes", "-o", "json")
	eventually(t, 10*time.Second, "control stays away, and its API says so", func() bool {
		return strings.Contains(f.run("status", "hello").all(), "a drill keeps control away")
	})
	if r := f.run("drill", "control-plane", "--yes"); r.code == 0 || !strings.Contains(r.all(), "a drill is under way") {
		t.Errorf("a second one: exit %d\n%s", r.code, r.all())
	}
	l.more(100)
	if err := d.wait(90 * time.Second); err != nil {
		t.Fatalf("the drill: %v\n%s", err, d.out)
	}
	l.more(50)
	l.end() // not one failed
	var v drilled
	if err := json.Unmarshal([]byte(d.out.String()), &v); err != nil {
		t.Fatalf("%v\n%s", err, d.out)
	}
	if v.Verdict.Asked != 1 || len(v.Routers) != 1 || v.Routers[0].Name != "gw" || v.Routers[0].After != 1 || v.Routers[0].Current != 1 {
		t.Errorf("of the table were asked %d: %+v", v.Verdict.Asked, v.Routers)
	}
	// Its views, its routes, and the host.
	if !v.Verdict.Held || v.Parties != 3 || v.Back != 3 || v.Verdict.Unroutable != "0" || v.Verdict.Calls == "0" {
		t.Errorf("the verdict: %+v", v)
	}
	if r := f.must("propagation", "hello"); !strings.Contains(r.stdout, "held by 1 that are connected") {
		t.Errorf("propagation says:\n%s", r.stdout)
	}
	if r := f.must("subscribers", "hello"); !strings.Contains(r.stdout, "gateway/gw") || !strings.Contains(r.stdout, "current") {
		t.Errorf("subscribers are:\n%s", r.stdout)
	}
	f.must("deploy", "hello", "--env", "A=b") // it leads as before
}

func TestADrillEndsByItselfThoughItsCommandIsKilledAndNotWithoutBeingAsked(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--", testapp)
	if r := f.run("drill", "control-plane"); r.code == 0 || !strings.Contains(r.all(), "give --yes") || !strings.Contains(r.all(), "control will do nothing") {
		t.Errorf("without a yes: exit %d\n%s", r.code, r.all())
	}
	for _, length := range []string{"1s", "2h"} {
		if r := f.run("drill", "control-plane", "--for", length); r.code == 0 || !strings.Contains(r.all(), "too short or too long") || strings.Contains(r.all(), "control will do nothing") {
			t.Errorf("of %s, which is refused before anybody is asked: exit %d\n%s", length, r.code, r.all())
		}
	}
	d := f.start("drill", "control-plane", "--for", "5s", "--yes")
	d.waitFor("control is away", 10*time.Second)
	d.kill()
	eventually(t, 60*time.Second, "control leads again", func() bool {
		return strings.Contains(f.run("events", "hello").stdout, "a drill kept control away for 5s")
	})
	d = f.start("drill", "control-plane", "--for", "10m", "--yes")
	d.waitFor("control is away", 10*time.Second)
	f.must("drill", "end")
	if err := d.wait(60 * time.Second); err == nil || !strings.Contains(d.out.String(), "it was ended early") {
		t.Errorf("one that was ended early: %v\n%s", err, d.out)
	}
}

func TestADrillAsksForCallersAtRelaysByTheTableAndForThoseWhoWentOverToOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.must("deploy", "hello", "--", testapp)
	relayAt, identity := freeAddress(t), filepath.Join(f.data, "caller")
	f.startRelay("r-1", relayAt, "--token", f.token("relay"))
	f.must("identity", "caller", "batch", "--out", identity)
	c := f.startCallerAt("hello", filepath.Join(f.data, "state"), identity, relayAt)
	c.waitFor("first 200 OK", 20*time.Second)
	eventually(t, 20*time.Second, "the caller is in the table", func() bool { return strings.Contains(f.run("routes", "hello").stdout, "caller/batch via r-1") })
	r := f.run("drill", "control-plane", "--for", "5s", "--yes", "-o", "json")
	c.end()
	var v drilled
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("%v\n%s", err, r.all())
	}
	// The gateway's views, here or by now at the relay, and its routes; the host; the relay.
	if !v.Verdict.Held || v.Parties != 4 || v.Back != 4 || v.Verdict.Asked != 2 || len(v.Routers) != 2 {
		t.Fatalf("the verdict: %+v", v)
	}
	for i, name := range []string{"batch", "gw"} {
		if x := v.Routers[i]; x.Name != name || x.Before != 1 || x.After != 1 {
			t.Errorf("%s stands as %+v", name, x)
		}
	}
}
