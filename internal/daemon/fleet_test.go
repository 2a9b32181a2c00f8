package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

func controlAt(api string) func(context.Context, cli.Process) error {
	return func(ctx context.Context, p cli.Process) error {
		return Roles{}.Control(ctx, cli.ControlOptions{Process: p, API: api, Ops: anyPort})
	}
}

func gatewayOf(j cli.Joining) func(context.Context, cli.Process) error {
	return func(ctx context.Context, p cli.Process) error {
		return Roles{}.Gateway(ctx, cli.GatewayOptions{Process: p, Joining: j, Listen: anyPort, Poll: anyPort, Ops: anyPort})
	}
}

func hostOf(j cli.Joining) func(context.Context, cli.Process) error {
	return func(ctx context.Context, p cli.Process) error {
		return Roles{}.Host(ctx, cli.HostOptions{Process: p, Joining: j, Zone: "a", Ops: anyPort, Advertise: "127.0.0.1"})
	}
}

func proberOf(j cli.Joining) func(context.Context, cli.Process) error {
	return func(ctx context.Context, p cli.Process) error {
		return Roles{}.Prober(ctx, cli.ProberOptions{Process: p, Joining: j, Zone: "a", Ops: anyPort})
	}
}

// startControl returns the role and its address.
func startControl(t *testing.T, data, api string) (*role, string) {
	t.Helper()
	r := run(t, controlAt(api), data)
	return r, r.waitFor(`control is up: API ([0-9.:]+)`)[1]
}

func token(t *testing.T, data, role string) string {
	t.Helper()
	code, out, errs := fairlead(t, data, "token", "create", "--role", role)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	return strings.TrimSpace(out)
}

// eventually waits for what the API says, which gives no signal to a test.
func says(t *testing.T, data, word string, args ...string) {
	t.Helper()
	if err := until(t.Context(), func() bool {
		_, out, _ := fairlead(t, data, args...)
		return strings.Contains(out, word)
	}); err != nil {
		t.Fatalf("%v never said %q: %v", args, word, err)
	}
}

func TestRolesAreProcessesOfTheirOwnThatJoinByToken(t *testing.T) {
	data := folder(t)
	_, api := startControl(t, data, anyPort)
	j := cli.Joining{Name: "gw-1", Control: []string{api}, Token: token(t, data, "gateway")}
	gw := run(t, gatewayOf(j), data)
	gw.waitFor("gateway is up: gw-1")
	h := run(t, hostOf(cli.Joining{Name: "h-1", Control: []string{api}, Token: token(t, data, "host")}), data)
	h.waitFor("host is up: h-1")
	says(t, data, " yes ", "gateways")
	says(t, data, " yes ", "hosts")
	pj := cli.Joining{Name: "p-1", Control: []string{api}, Token: token(t, data, "prober")}
	p := run(t, proberOf(pj), data)
	ops := p.waitFor("prober is up: p-1 in zone a, ops http://([0-9.:]+)/")[1]
	says(t, data, "p-1     a     yes ", "probers")
	if err := until(t.Context(), func() bool { code, _ := get(t, "http://"+ops+"/readyz"); return code == 200 }); err != nil {
		t.Error("a prober that control hears is not ready")
	}
	// A second of its name would take its stream away, and be taken it, for ever.
	if err := run(t, proberOf(pj), data).end(); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second prober of the name gave %v", err)
	}

	// A gateway that is told to end says goodbye, and is nobody's member then.
	if err := gw.stop(); err != nil {
		t.Error(err)
	}
	if _, out, _ := fairlead(t, data, "gateways"); strings.Contains(out, "gw-1") {
		t.Errorf("it is still a member:\n%s", out)
	}
	// It joined once: the token is of no use any more, and none is needed.
	j.Token = ""
	run(t, gatewayOf(j), data).waitFor("gateway is up: gw-1")
	says(t, data, " yes ", "gateways")
}

func TestARoleWithoutAnIdentityAndWithoutAGoodTokenIsRefused(t *testing.T) {
	data := folder(t)
	_, api := startControl(t, data, anyPort)
	used := token(t, data, "gateway")
	run(t, gatewayOf(cli.Joining{Name: "gw-1", Control: []string{api}, Token: used}), data).waitFor("gateway is up")
	for name, j := range map[string]cli.Joining{
		"no token":           {Name: "gw-2", Control: []string{api}},
		"a used token":       {Name: "gw-2", Control: []string{api}, Token: used},
		"a prober's":         {Name: "gw-2", Control: []string{api}, Token: token(t, data, "prober")},
		"another role's":     {Name: "gw-2", Control: []string{api}, Token: token(t, data, "host")},
		"nonsense":           {Name: "gw-2", Control: []string{api}, Token: "fl1.x"},
		"a name that is bad": {Name: "../x", Control: []string{api}, Token: used},
	} {
		err := run(t, gatewayOf(j), data).end()
		if !errors.Is(err, fault.Invalid) && !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("%s gave %v (%s)", name, err, fault.CodeOf(err))
		}
	}
}

func TestARoleThatLostTrustServesOnAlarmsAndJoinsAgainByToken(t *testing.T) {
	data, apart := folder(t), folder(t)
	control, api := startControl(t, data, anyPort)
	if err := os.MkdirAll(apart, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(apart, "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token(t, data, "gateway"))
	gw := run(t, gatewayOf(cli.Joining{Name: "gw", Control: []string{api}, TokenFile: file}), apart)
	ops := gw.waitFor(`gateway is up: .* ops http://([0-9.:]+)/`)[1]
	says(t, data, " yes ", "gateways")

	if err := control.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	startControl(t, data, api)
	gw.waitFor("trust is lost")
	if code, body := get(t, "http://"+ops+"/readyz"); code != 503 || !strings.Contains(body, "another authority") {
		t.Errorf("readyz answers %d: %s", code, body)
	}
	if _, body := get(t, "http://"+ops+"/metrics"); !strings.Contains(body, `fairlead_trust_lost{name="gw",role="gateway"} 1`) {
		t.Error("the metric does not say so")
	}
	write(token(t, data, "gateway"))
	gw.waitFor("trusted again")
	says(t, data, " yes ", "gateways")
	if code, body := get(t, "http://"+ops+"/readyz"); code != 200 {
		t.Errorf("readyz answers %d: %s", code, body)
	}
}
