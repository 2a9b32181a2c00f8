package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/cli"
)

// TestWhatAHostStartsIsToldOfRelaysFirst, also by a host that was started anew
// while control was away.
func TestWhatAHostStartsIsToldOfRelaysFirst(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	data, hostData := folder(t), folder(t)
	control, api := startControl(t, data, anyPort)
	relay := run(t, relayOf(cli.Joining{Name: "r1", Control: []string{api}, Token: token(t, data, "relay")}, anyPort), folder(t))
	atRelay := relay.waitFor(`subscribers ([0-9.:]+)`)[1]
	joining := cli.Joining{Name: "h1", Control: []string{api}, Token: token(t, data, "host")}
	host := run(t, hostOf(joining), hostData)
	kept := func() string {
		found, _ := filepath.Glob(filepath.Join(hostData, "host", "h1", "relays.json*"))
		if len(found) == 0 {
			return ""
		}
		b, _ := os.ReadFile(found[0])
		return string(b)
	}
	if err := until(ctx, func() bool { return strings.Contains(kept(), atRelay) }); err != nil {
		t.Fatal("the host keeps no relay")
	}
	says(t, data, "h1", "hosts")
	told := filepath.Join(hostData, "told")
	script := `env | grep ^FAIRLEAD_PLANE= >` + told + `.new; mv ` + told + `.new ` + told + `; exec python3 -m http.server "$PORT"`
	if code, out, errs := fairlead(t, data, "deploy", "web", "--no-wait", "--", "sh", "-c", script); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	env := func() string {
		b, _ := os.ReadFile(told)
		return strings.TrimSpace(string(b))
	}
	want := "FAIRLEAD_PLANE=" + atRelay + "," + api
	if until(ctx, func() bool { return env() != "" }); env() != want {
		t.Errorf("it is told %s, want %s", env(), want)
	}
	stopped(t, control, host)
	if err := os.Remove(told); err != nil {
		t.Fatal(err)
	}
	run(t, hostOf(cli.Joining{Name: "h1", Control: []string{api}}), hostData)
	if until(ctx, func() bool { return env() != "" }); env() != want {
		t.Errorf("while control is away it is told %s, want %s", env(), want)
	}
}
