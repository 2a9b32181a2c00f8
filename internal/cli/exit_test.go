package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// run runs one command line.
func (p *plane) run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(context.Background(), Env{
		Args: append([]string{"--data", p.data}, args...), Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" }, Roles: noRoles{},
	})
	return code, out.String(), errs.String()
}

func newPlaneFor(t *testing.T) *plane {
	t.Helper()
	p, err := newPlane(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *plane) must(t *testing.T, args ...string) {
	t.Helper()
	if err := p.do(args); err != nil {
		t.Fatal(err)
	}
}

func TestTheExitCodeSaysWhetherItWasDoneFailedRefusedOrUnreachable(t *testing.T) {
	p := newPlaneFor(t)
	p.must(t, "automatic", "on")
	for _, c := range []struct {
		line string
		code int
	}{
		{"--help", ExitDone},
		{"--version", ExitDone},
		{"version", ExitDone},
		{"get", ExitDone},
		{"info", ExitDone},
		{"hosts", ExitDone},
		{"gateways", ExitDone},
		{"token create --role host", ExitDone},
		{"deploy hello -- python3", ExitDone},
		{"deploy hello", ExitDone},
		{"get hello", ExitDone},
		{"status hello", ExitDone},
		{"revisions hello", ExitDone},
		{"explain hello", ExitDone},
		{"events hello", ExitDone},
		{"instances hello", ExitDone},
		{"history hello", ExitDone},
		{"contract get hello", ExitDone},
		{"flaps hello", ExitDone},
		{"flaps helo", ExitRefused},
		{"diff-runtime", ExitDone},
		{"instances helo", ExitRefused},
		{"history helo", ExitRefused},
		{"contract get helo", ExitRefused},
		{"contract set hello -f /no/such/file", ExitRefused},
		{"explain hello/01ABD", ExitRefused},
		{"logs hello --instance 01ABC", ExitDone},
		{"scale hello 2", ExitDone},
		{"nothing", ExitRefused},
		{"--output xml get", ExitRefused},
		{"deploy", ExitRefused},
		{"deploy hello python3", ExitRefused},
		{"deploy Hello -- python3", ExitRefused},
		{"deploy hello -- ./no-such-file", ExitRefused},
		{"scale hello 0", ExitRefused},
		{"scale hello two", ExitRefused},
		{"scale hello 4294967298", ExitRefused}, // which 32 bits hold as 2
		{"deploy hello --instances 4294967298", ExitRefused},
		{"events hello --limit 4294967298", ExitRefused},
		{"scale helo 2", ExitRefused},
		{"status helo", ExitRefused},
		{"explain helo", ExitRefused},
		{"revisions helo", ExitRefused},
		{"events helo", ExitRefused},
		{"logs helo", ExitRefused},
		{"delete helo", ExitRefused},
		{"traffic hello LATEST=90", ExitRefused},
		{"traffic hello LATEST", ExitRefused},
		{"rollback hello --to hello-00009", ExitRefused},
		{"abort hello", ExitRefused},
		{"resume hello", ExitRefused},
		{"apply -f /no/such/file", ExitRefused},
		{"diff -f /no/such/file", ExitRefused},
		{"gateways retire nobody", ExitRefused},
		{"hosts retire nobody", ExitRefused},
		{"token create --role king", ExitRefused},
		{"up", ExitFailed}, // of a role that ends with an error
		{"--api 127.0.0.1:1 get", ExitUnreachable},
		{"--api /no/such.sock deploy hello -- python3", ExitUnreachable},
	} {
		if code, _, stderr := p.run(strings.Fields(c.line)...); code != c.code {
			t.Errorf("fairlead %s: exit code %d, documented is %d; it says %s", c.line, code, c.code, stderr)
		}
	}
	p.must(t, "automatic", "off")
	p.must(t, "fails", "hello")
	if code, _, _ := p.run("deploy", "hello", "--env", "A=b", "--wait", "100ms"); code != ExitFailed {
		t.Errorf("a wait that is over: exit code %d", code)
	}
	if code, _, _ := p.run("delete", "hello", "--no-wait"); code != ExitDone {
		t.Errorf("a change that is not waited for: exit code %d", code)
	}
}

func TestADifferenceOrALagIsAnExitCode(t *testing.T) {
	p := newPlaneFor(t)
	if code, out, _ := p.run("diff-runtime"); code != ExitDone || !strings.Contains(out, "no row differs") {
		t.Errorf("without a difference: exit code %d\n%s", code, out)
	}
	p.must(t, "lags", "11s")
	if code, out, _ := p.run("diff-runtime"); code != ExitFailed || !strings.Contains(out, "11.0 s") {
		t.Errorf("a host that does not answer: exit code %d\n%s", code, out)
	}
	p.must(t, "lags", "1s")
	p.must(t, "differs", "hello", "i1")
	for _, form := range []string{"table", "json"} {
		if code, out, _ := p.run("diff-runtime", "-o", form); code != ExitFailed || !strings.Contains(out, "held") {
			t.Errorf("with a difference: exit code %d\n%s", code, out)
		}
	}
}

func TestACondemnedContractIsAnExitCode(t *testing.T) {
	p := newPlaneFor(t)
	p.must(t, "automatic", "on")
	if code, _, stderr := p.run("deploy", "hello", "--", "python3"); code != ExitDone {
		t.Fatal(stderr)
	}
	file := filepath.Join(t.TempDir(), "contract.yaml")
	for _, c := range []struct {
		contract string
		code     int
		says     string
	}{
		{"{}", ExitDone, "would not have tripped"},
		{"outByOutcomes: 0.09\ndegradeAt: 0.09\nin: 0.05", ExitFailed, "i1        not       failing-callers"},
		{"worse: 0.01", ExitFailed, "it would be refused: worse is 10"},
		{"wrose: 0.1", ExitRefused, ""},
	} {
		if err := os.WriteFile(file, []byte(c.contract), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, stderr := p.run("contract", "test", "hello", "-f", file)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.contract, code, c.code, out, stderr)
		}
		if code, _, _ := p.run("contract", "test", "hello", "-f", file, "-o", "json"); code != c.code {
			t.Errorf("%s as JSON: exit code %d", c.contract, code)
		}
	}
	if code, _, _ := p.run("contract", "test", "hello", "-f", file, "--since", "200h"); code != ExitRefused {
		t.Errorf("a window that nothing is kept of: exit code %d", code)
	}
}

func TestAContractTestOverEvidenceMostOfWhichIsLostDoesNotPassUnlessThatIsAccepted(t *testing.T) {
	p := newPlaneFor(t)
	p.must(t, "automatic", "on")
	if code, _, stderr := p.run("deploy", "hello", "--", "python3"); code != ExitDone {
		t.Fatal(stderr)
	}
	mild, wrong := filepath.Join(t.TempDir(), "mild.yaml"), filepath.Join(t.TempDir(), "wrong.yaml")
	for file, contract := range map[string]string{mild: "{}", wrong: "outByOutcomes: 0.09\ndegradeAt: 0.09\nin: 0.05"} {
		if err := os.WriteFile(file, []byte(contract), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const little = "too little was replayed: of the 601 s of the window the evidence of"
	for _, c := range []struct {
		lost, args string
		code       int
		says, not  string
	}{
		{"300", "-f " + mild, ExitDone, "would not have tripped", little},
		{"301", "-f " + mild, ExitUnknown, little, "would not have tripped"},
		{"301", "-o json -f " + mild, ExitUnknown, `"inconclusive": "of the 601 s`, ""},
		{"601", "-f " + mild + " --allow-partial", ExitDone, little, "it is not known"},
		{"601", "-f " + wrong, ExitFailed, "condemned", "it is not known"}, // what it would have done, it would have
	} {
		p.must(t, "loses", c.lost)
		code, out, stderr := p.run(append([]string{"contract", "test", "hello"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.says) || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%s lost, %s: exit code %d, want %d\n%s%s", c.lost, c.args, code, c.code, out, stderr)
		}
	}
}

func TestAWaitThatIsShorterThanAnAttemptIsSaid(t *testing.T) {
	p := newPlaneFor(t)
	p.must(t, "automatic", "on")
	for _, c := range []struct {
		flags string
		said  bool
	}{
		{"--wait 59s", true},
		{"--wait 1m --env A=1", false},
		{"--wait 59s --env A=2 --no-wait", false},
		{"--wait 59s --env A=3 --ready-timeout 10s", false},
		{"--wait 59s --env A=4 --ready-timeout 2m", true},
	} {
		args := append(append([]string{"deploy", "hello"}, strings.Fields(c.flags)...), "--", "python3")
		code, _, stderr := p.run(args...)
		if said := strings.Contains(stderr, "is shorter than an attempt may take"); code != ExitDone || said != c.said {
			t.Errorf("%s: exit code %d, it says %q", c.flags, code, stderr)
		}
	}
}

func TestWhatIsRefusedSaysWhatToDo(t *testing.T) {
	p := newPlaneFor(t)
	p.must(t, "automatic", "on")
	if code, _, stderr := p.run("deploy", "hello", "--", "python3"); code != ExitDone {
		t.Fatal(stderr)
	}
	for _, line := range []string{
		"nothing", "deploy hello python3", "deploy Hello -- python3", "deploy hello -- ./no-such-file", "scale hello 0", "status helo",
		"traffic hello LATEST=90", "traffic hello LATEST", "rollback hello --to hello-00009",
		"gateways retire nobody", "hosts retire nobody", "token create --role king", "deploy other",
	} {
		_, _, stderr := p.run(strings.Fields(line)...)
		if said := strings.Split(strings.TrimSpace(stderr), "\n"); len(said) < 2 || !strings.HasPrefix(said[0], "fairlead: ") {
			t.Errorf("fairlead %s: it says no more than %q", line, stderr)
		}
	}
}

// keysOf are the keys of an answer, of the first of a list's elements too.
func keysOf(v any) []string {
	switch v := v.(type) {
	case map[string]any:
		return slices.Sorted(maps.Keys(v))
	case []any:
		if len(v) > 0 {
			return keysOf(v[0])
		}
	}
	return nil
}

// answersWith checks the keys of what a command writes for programs.
func (p *plane) answersWith(t *testing.T, line, keys string) {
	t.Helper()
	for _, form := range []string{"json", "yaml"} {
		code, out, stderr := p.run(append([]string{"-o", form}, strings.Fields(line)...)...)
		var v any
		err := yaml.Unmarshal([]byte(out), &v)
		if form == "json" {
			err = json.Unmarshal([]byte(out), &v)
		}
		if got := strings.Join(keysOf(v), " "); code != ExitDone || err != nil || got != keys {
			t.Errorf("fairlead %s -o %s: code %d %v %s, keys\n%s, expected\n%s", line, form, code, err, stderr, got, keys)
		}
	}
}

func TestEveryReadingCommandHasTheSameKeysEmptyOrFullInJSONAndYAML(t *testing.T) {
	p := newPlaneFor(t)
	p.must(t, "automatic", "on")
	installation := [][2]string{
		{"version", "go platform version"},
		{"info", "alarms epoch gatewayUrl guarantee incarnation leading store version"},
		{"hosts", "hosts notes"},
		{"diff-runtime", "differences observing sources"},
		{"gateways", "gateways"},
		{"get", "services"},
	}
	for _, r := range installation {
		p.answersWith(t, r[0], r[1])
	}
	p.must(t, "gateway", "gw")
	const ended = "hint lastLines outcome reason retryAt revision serving step url"
	for _, r := range append([][2]string{
		{"deploy hello --env A=1 -- python3", ended}, // changes, and changes nothing the second time
		{"get hello", "at by deleted generation hostNames instances paused round service template traffic"},
		{"status hello", "alarms deleting deployment generation hostNames instances missing needsOperator notes observedGeneration paused pinned refused revisions routes service stops traffic url view viewHolders wantedTraffic warm warmUntil"},
		{"revisions hello", "revisions"},
		{"explain hello", "sections service summary"},
		{"events hello", "events"},
		{"routes hello", "callers more plan routers routes service stops unheard view"},
		{"instances hello", "guards instances observing service"},
		{"history hello", "missing policies transitions"},
		{"contract get hello", "contract declared service"},
		{"flaps hello", "changes observing quarantines service"},
		{"rollback hello --to hello-00001 --dry-run", "generation reason revision warm"},
	}, installation...) {
		p.answersWith(t, r[0], r[1])
	}
}

// upRoles keeps what `up` was asked for.
type upRoles struct {
	noRoles
	asked *UpOptions
}

func (r upRoles) Up(_ context.Context, o UpOptions) error {
	*r.asked = o
	return nil
}

func TestADataFolderIsTheSameFromEveryFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var asked UpOptions
	env := Env{Args: []string{"--data", "rel/data", "up"}, Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }, Roles: upRoles{asked: &asked}}
	if code := Run(context.Background(), env); code != ExitDone || asked.Data != filepath.Join(here, "rel/data") {
		t.Errorf("code %d, the data folder is %q, not an absolute path", code, asked.Data)
	}
}
