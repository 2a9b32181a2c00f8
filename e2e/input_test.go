package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBadInputGetsAClearErrorAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--host-name", "shop.example.com", "--", testapp)
	before := w.must("get", "-o", "json").stdout
	notExecutable := filepath.Join(t.TempDir(), "data.txt")
	if err := os.WriteFile(notExecutable, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		say  string
	}{
		"an unknown service":                {[]string{"status", "helo"}, 2, "hello"},
		"a name that is no DNS label":       {[]string{"deploy", "Hello_World", "--", testapp}, 2, "DNS label"},
		"a name that is too long":           {[]string{"deploy", strings.Repeat("a", 64), "--", testapp}, 2, "long"},
		"a host name of another service":    {[]string{"deploy", "other", "--host-name", "shop.example.com", "--", testapp}, 2, "hello"},
		"a host name that is none":          {[]string{"deploy", "other", "--host-name", "a b", "--", testapp}, 2, "host name"},
		"a negative number":                 {[]string{"scale", "hello", "--", "-1"}, 2, "instances"},
		"a new service without a command":   {[]string{"deploy", "other"}, 2, "command"},
		"an environment variable with no =": {[]string{"deploy", "hello", "--env", "=x"}, 2, "needs a name"},
		"a file that does not exist":        {[]string{"deploy", "other", "--", "./does-not-exist"}, 2, "does-not-exist"},
		"a file that is not executable":     {[]string{"deploy", "other", "--", notExecutable}, 2, "executable"},
		"an unknown flag":                   {[]string{"deploy", "hello", "--instance", "2"}, 2, "--instance"},
		"an unknown command":                {[]string{"deplo", "hello"}, 2, "deplo"},
		"an unknown role":                   {[]string{"token", "create", "--role", "king"}, 2, "host"},
		"an unknown gateway":                {[]string{"gateways", "retire", "nobody"}, 2, "nobody"},
		"a folder that does not exist":      {[]string{"deploy", "hello", "--dir", "relative/path"}, 2, "relative/path"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.run(c.args...)
			if r.code != c.code || !strings.Contains(r.stderr, c.say) {
				t.Errorf("fairlead %s: exit %d, expected %d and %q on standard error:\n%s", strings.Join(c.args, " "), r.code, c.code, c.say, r.all())
			}
		})
	}
	if after := w.must("get", "-o", "json").stdout; after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}

func TestACommandThatDoesNotExistFailsTheDeployAtInstall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	r := w.run("deploy", "hello", "--", "no-such-program-anywhere")
	if r.code != 1 || !strings.Contains(r.all(), "install") || !strings.Contains(r.all(), "no-such-program-anywhere") {
		t.Errorf("exit %d, expected 1, naming the step and the command:\n%s", r.code, r.all())
	}
}

func TestAPortInUseAndADataFolderInUseAreSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	other := newWorld(t)
	if r := other.run("up", "--data", other.data, "--api", w.api, "--gateway", other.gateway, "--ops", other.ops, "--poll", other.poll); r.code != 2 || !strings.Contains(r.stderr, w.api) || !strings.Contains(r.stderr, "--api") {
		t.Errorf("exit %d, expected 2, naming the port and the flag:\n%s", r.code, r.all())
	}
	if r := other.run("up", "--data", w.data, "--api", other.api, "--gateway", other.gateway, "--ops", other.ops, "--poll", other.poll); r.code != 2 || !strings.Contains(r.stderr, w.data) {
		t.Errorf("exit %d, expected 2, naming the folder in use:\n%s", r.code, r.all())
	}
}

func TestOfTwoConcurrentWritersOneWinsAndTheOtherIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	w.must("deploy", "hello", "--", testapp)
	a := w.start("deploy", "hello", "--env", "WHO=a")
	b := w.start("deploy", "hello", "--env", "WHO=b")
	<-a.done
	<-b.done
	codes := [2]int{a.cmd.ProcessState.ExitCode(), b.cmd.ProcessState.ExitCode()}
	// Both may win one after the other: then the earlier one is superseded (1). A lost race is 2. Never two of 0.
	if codes != [2]int{0, 1} && codes != [2]int{1, 0} && codes != [2]int{0, 2} && codes != [2]int{2, 0} {
		t.Errorf("exits %v:\n%s\n%s", codes, a.out, b.out)
	}
}
