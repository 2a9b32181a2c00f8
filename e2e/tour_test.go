package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramsThatWeDidNotWriteAreDeployedAndServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.up()
	dir := t.TempDir()
	for p := dir; p != "/"; p = filepath.Dir(p) { // nginx's workers run as another user
		if p != os.TempDir() && strings.HasPrefix(p, os.TempDir()) {
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := write("server.js", `require('http').createServer((q, r) => { console.log(q.url); r.end('node ' + process.env.FAIRLEAD_REVISION) }).listen(process.env.PORT, '0.0.0.0')`)
	write("index.html", "<p>static</p>")
	nginxConf := `daemon off; pid nginx.pid; error_log stderr; events {} http { access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s; server { listen $PORT; location / { return 200 "nginx\n"; } } }`
	for _, c := range []struct {
		name string
		args []string
		say  string
	}{
		{"python", []string{"--dir", dir, "--", "python3", "-m", "http.server", "$(PORT)"}, "<p>static</p>"},
		{"node", []string{"--", "node", script}, "node node-00001"},
		{"nginx", []string{"--", "sh", "-c", "echo '" + nginxConf + "' | sed s/[$]PORT/$PORT/ > conf && exec nginx -e stderr -p . -c conf"}, "nginx"},
		{"gopher", []string{"--ready-path", "/", "--", testapp}, "gopher-00001"},
	} {
		w.must(append([]string{"deploy", c.name}, c.args...)...)
		if code, body, _ := w.get(c.name, "/"); code != 200 || !strings.Contains(body, c.say) {
			t.Errorf("%s answered %d: %s", c.name, code, body)
		}
	}
}

// TestTheTourWorksAsPrinted runs the shell lines of the README's tour.
func TestTheTourWorksAsPrinted(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tour, ok := strings.Cut(string(readme), "<!-- tour -->")
	if !ok {
		t.Fatal("README.md has no <!-- tour --> mark")
	}
	tour, _, _ = strings.Cut(tour, "<!-- /tour -->")
	for _, address := range []string{"127.0.0.1:7700", "127.0.0.1:7701", "127.0.0.1:7702", "127.0.0.1:8080"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatalf("the tour needs its default ports: %v", err)
		}
		l.Close()
	}
	w := newWorld(t)
	up := w.start("up") // the tour's first line, on the default ports
	up.waitFor("fairlead is up", 20e9)
	work := filepath.Join(w.data, "tour")
	if err := os.MkdirAll(filepath.Join(work, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, step := range tourSteps(tour) {
		if strings.HasPrefix(step.command, "fairlead up") || strings.HasPrefix(step.command, "make") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", step.command)
		cmd.Dir = ".."
		cmd.Env = append(w.env(), "PATH="+filepath.Dir(fairlead)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("$ %s\n%v\n%s", step.command, err, out)
		}
		for _, want := range step.expect {
			if !strings.Contains(string(out), want) {
				t.Errorf("$ %s\nshould print %q, printed:\n%s", step.command, want, out)
			}
		}
	}
}

type tourStep struct {
	command string
	expect  []string // lines printed under it, up to an ellipsis
}

// tourSteps reads lines "$ command" and the output printed below each.
func tourSteps(tour string) []tourStep {
	var steps []tourStep
	fenced := false
	for line := range strings.Lines(tour) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case !fenced:
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, tourStep{command: strings.TrimPrefix(line, "$ ")})
		case len(steps) > 0 && strings.TrimSpace(line) != "" && !strings.Contains(line, "…"):
			steps[len(steps)-1].expect = append(steps[len(steps)-1].expect, strings.TrimSpace(line))
		}
	}
	return steps
}
