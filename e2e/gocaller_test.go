package e2e

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/identity"
)

// goCaller is a program with the README's ten lines, outside our hosts.
type goCaller struct {
	*process
	f        *fleet
	state    string
	identity string
}

func (f *fleet) startCaller(service, state, identity string) *goCaller {
	f.t.Helper()
	return f.startCallerAt(service, state, identity, f.api)
}

func (f *fleet) startCallerAt(service, state, identity, plane string) *goCaller {
	f.t.Helper()
	cmd := exec.Command(testcaller, "-state", state, "-service", service)
	cmd.Env = []string{"FAIRLEAD_PLANE=" + plane, "FAIRLEAD_IDENTITY=" + identity}
	return &goCaller{process: f.startCommand(cmd), f: f, state: state, identity: identity}
}

var soFar = regexp.MustCompile(`so far map\[.*200 OK:(\d+)`)

// answered is how many requests were, by what it printed last.
func (c *goCaller) answered() int {
	all := soFar.FindAllStringSubmatch(c.out.String(), -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// more waits until so many more requests were answered.
func (c *goCaller) more(n int) {
	c.t.Helper()
	goal := c.answered() + n
	for end := time.Now().Add(60 * time.Second); c.answered() < goal; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%d answers, want %d:\n%s", c.answered(), goal, c.out.tail(20))
		}
	}
}

// end ends it and checks that not one request failed.
func (c *goCaller) end() {
	c.t.Helper()
	c.signal(syscall.SIGTERM)
	if err := c.wait(20 * time.Second); err != nil {
		c.t.Errorf("the caller ended by %v", err)
	}
	if line := c.waitFor("in all", time.Second); !regexp.MustCompile(`^in all map\[200 OK:\d+\]$`).MatchString(line) {
		c.t.Errorf("not all went well: %s", line)
	}
	c.waitFor("panics 0", time.Second)
}

// readmesCaller builds the program in README.md as it stands there, but for the
// folder that it keeps its views in.
func readmesCaller(t *testing.T, state string) string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(readme)
	if program == nil {
		t.Fatal("README.md has no program to paste")
	}
	const folder = `"/var/lib/app"`
	text := strings.Replace(string(program[1]), folder, strconv.Quote(state), 1)
	if text == string(program[1]) {
		t.Fatalf("README's program names no %s", folder)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "caller"), filepath.Join(dir, "main.go"))
	build.Dir = ".." // a module that requires ours, as ours does
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("README's program does not build as it is pasted: %v\n%s", err, out)
	}
	return filepath.Join(dir, "caller")
}

// runReadmes has it call once, and says what it printed.
func (f *fleet) runReadmes(program, identity string) string {
	f.t.Helper()
	cmd := exec.Command(program)
	cmd.Env = []string{"FAIRLEAD_PLANE=" + f.api, "FAIRLEAD_IDENTITY=" + identity}
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Errorf("README's program ended by %v", err)
	}
	return string(out)
}

// pidsOf n instances that answer at the gateway.
func (w *world) pidsOf(service string, n int) (pids []int) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); len(pids) < n; {
		if time.Now().After(end) {
			w.t.Fatalf("%d instances answer, want %d", len(pids), n)
		}
		if pid := w.pidOf(service); !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestACallerOfTheReadmesTenLinesSurvivesTheDeathOfEverythingButItsCallees(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	identity, state := filepath.Join(f.data, "caller"), filepath.Join(f.data, "state")
	f.must("identity", "caller", "batch", "--out", identity)
	f.must("deploy", "payments", "--instances", "3", "--", testapp)
	pasted := readmesCaller(t, filepath.Join(f.data, "pasted"))
	if out := f.runReadmes(pasted, identity); !strings.Contains(out, "200 OK") {
		t.Errorf("README's program, as pasted, printed:\n%s", out)
	}
	c := f.startCaller("payments", state, identity)
	c.waitFor("first 200 OK", 20*time.Second)
	c.more(200)

	pids := f.pidsOf("payments", 3)
	// Everything is killed for good that is not the caller or whom it calls.
	f.control.kill()
	f.gw.kill()
	f.host.kill()
	c.more(500)

	// Two callees of three die meanwhile, one after the other.
	for _, pid := range pids[:2] {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.more(300)
	}
	c.end()

	// It is started anew in the outage, and so is README's.
	if out := f.runReadmes(pasted, identity); !strings.Contains(out, "200 OK") {
		t.Errorf("README's program, in the outage, printed:\n%s", out)
	}
	c = f.startCaller("payments", state, identity)
	c.waitFor("opened with a view from disk", 20*time.Second)
	c.more(300)
	c.end()
}

// expire has the authority sign the identity in a folder anew, for a moment that
// is over on return.
func (f *fleet) expire(dir, caller string) {
	f.t.Helper()
	block, _ := pem.Decode(f.read(filepath.Join(dir, "key.pem")))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		f.t.Fatal(err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key.(*ecdsa.PrivateKey))
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := identity.OpenAuthority(filepath.Join(f.data, "authority"), identity.AuthorityOptions{Lifetime: time.Second})
	if err != nil {
		f.t.Fatal(err)
	}
	defer a.Close()
	cert, err := a.Sign(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}), identity.ID{TrustDomain: a.TrustDomain(), Role: identity.Caller, Name: caller})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), cert, 0o600); err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, 10*time.Second, "the identity is expired", func() bool { return f.lasts(dir) < 0 })
}

// lasts is for how long the identity in a folder is good.
func (f *fleet) lasts(dir string) time.Duration {
	f.t.Helper()
	block, _ := pem.Decode(f.read(filepath.Join(dir, "cert.pem")))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		f.t.Fatal(err)
	}
	return time.Until(cert.NotAfter)
}

func (f *fleet) read(path string) []byte {
	f.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return content
}

func TestACallerWhoseIdentityExpiredDuringTheOutagePicksOnAndRenewsItselfWhenThePlaneIsBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir, state := filepath.Join(f.data, "caller"), filepath.Join(f.data, "state")
	f.must("identity", "caller", "batch", "--out", dir)
	f.must("deploy", "hello", "--instances", "2", "--", testapp)
	c := f.startCaller("hello", state, dir)
	c.waitFor("first 200 OK", 20*time.Second)
	c.end()

	f.control.kill()
	f.expire(dir, "batch")
	c = f.startCaller("hello", state, dir)
	c.waitFor("opened with a view from disk", 20*time.Second)
	c.more(100)
	if f.lasts(dir) > 0 {
		t.Error("it was renewed by nobody")
	}
	f.control = f.startControl()
	eventually(t, time.Minute, "the identity is renewed", func() bool { return f.lasts(dir) > identity.DefaultLifetime/2 })
	eventually(t, time.Minute, "the caller follows again", func() bool {
		return regexp.MustCompile(`caller/batch\s.*current`).MatchString(f.run("subscribers", "hello").stdout)
	})
	c.more(100)
	c.end()
}
