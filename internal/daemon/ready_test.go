package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
)

// ready waits until /readyz answers with the code, and returns what it says.
func ready(t *testing.T, ops string, code int) string {
	t.Helper()
	var body string
	deadline := time.Now().Add(20 * time.Second)
	if err := until(t.Context(), func() bool {
		var got int
		got, body = get(t, "http://"+ops+"/readyz")
		return got == code || time.Now().After(deadline)
	}); err != nil || time.Now().After(deadline) {
		t.Fatalf("readyz never answers %d: %v\n%s", code, err, body)
	}
	return body
}

func saysAll(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

func TestThatTheFilesOfTheStoreWereReplacedUnderControlIsAnAlarm(t *testing.T) {
	t.Parallel()
	data := folder(t)
	r := run(t, up(nil), data)
	r.waitFor(upLine)
	if _, out, errs := fairlead(t, data, "info"); strings.Contains(out, "alarm") {
		t.Fatalf("an alarm before:\n%s%s", out, errs)
	}
	file := filepath.Join(data, dirControl, "store.db")
	if err := os.WriteFile(file+".other", []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".other", file); err != nil {
		t.Fatal(err)
	}
	_, out, errs := fairlead(t, data, "info")
	saysAll(t, out+errs, "alarm", "another file than this process has open", "start it again")
}

func TestReadyzNamesEachConditionAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	data := folder(t)
	r := run(t, up(nil), data)
	ops := r.waitFor(upLine)[4]
	saysAll(t, ready(t, ops, 200), "control: ok", "routes of gateway gw: ok", "trust of gateway gw: ok", "trust of host host-default: ok", "\nready\n")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	// A gateway that has never had a table, and hears nobody.
	apart := folder(t)
	controlPlane, api := startControl(t, data, anyPort)
	j := cli.Joining{Name: "gw-1", Control: []string{api}, Token: token(t, data, "gateway")}
	gw := run(t, gatewayOf(j), apart)
	gw.waitFor("gateway is up")
	if err := errors.Join(gw.stop(), controlPlane.stop()); err != nil {
		t.Fatal(err)
	}
	held, err := filepath.Glob(filepath.Join(apart, dirGateway, "gw-1", "routes*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range held {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	ops = run(t, gatewayOf(j), apart).waitFor(`gateway is up: .* ops http://([0-9.:]+)/`)[1]
	saysAll(t, ready(t, ops, 503), "routes of gateway gw-1: not ready: no route table is held and no control is heard", "trust of gateway gw-1: ok", "\nnot ready\n")
	startControl(t, data, api)
	saysAll(t, ready(t, ops, 200), "routes of gateway gw-1: ok")
}

func TestReadyzOfControlSaysThatNobodyLeadsWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	plane := cli.Plane{Store: server.URL, Authority: folder(t), Bucket: folder(t)}
	a := run(t, controlOn(plane), folder(t))
	opsA := a.waitFor(controlLine)[2]
	dataB := folder(t)
	b := run(t, controlOn(plane), dataB)
	opsB := b.waitFor(controlLine)[2]
	ready(t, opsA, 200)
	ready(t, opsB, 200)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	a.waitFor("this control leads no more")
	saysAll(t, ready(t, opsA, 503), "control: not ready: this control does not lead")
	saysAll(t, ready(t, opsB, 503), "has not renewed its lease for")
	if code, _, errs := fairlead(t, dataB, "status", "hello"); code != cli.ExitFailed || !strings.Contains(errs, "known to the leader only") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if err := server.StartAgain(); err != nil {
		t.Fatal(err)
	}
	ready(t, opsA, 200)
	ready(t, opsB, 200)
}

func TestWhereOthersReachAControl(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ named, listening, want string }{
		{"", "127.0.0.1:7700", "127.0.0.1:7700"},
		{"", "[::]:7700", name + ":7700"},
		{"", "0.0.0.0:7700", name + ":7700"},
		{"control.example:443", "0.0.0.0:7700", "control.example:443"},
		{"", "no address", "no address"},
	} {
		if got := advertised(c.named, c.listening); got != c.want {
			t.Errorf("advertised(%q, %q) = %q, expected %q", c.named, c.listening, got, c.want)
		}
	}
}

func TestAStandbySaysWhoLeadsAndWhetherItIsHeard(t *testing.T) {
	for want, l := range map[string]control.Leader{
		"this control stands by, and knows of none that leads":                         {},
		"this control stands by: a/1 leads, at h:1":                                    {Holder: "a/1", Address: "h:1", Quiet: time.Second},
		"this control stands by: a/1 at h:1 led, and has not renewed its lease for 4s": {Holder: "a/1", Address: "h:1", Quiet: 4 * time.Second},
	} {
		if got := standing(l); got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
}
