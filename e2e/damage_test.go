package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// sql runs sqlite3 on the plant's store, as an operator may.
func (p *plant) sql(statement string) string {
	p.t.Helper()
	cmd := exec.Command("sqlite3", "-bail", "-cmd", ".timeout 5000", filepath.Join(p.data, "control", "store.db"), statement)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("sqlite3: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// deployAll deploys a release of each service at once.
func (p *plant) deployAll(release string, services ...string) {
	p.t.Helper()
	var wg sync.WaitGroup
	for _, s := range services {
		args := p.deployArgs(s, "--env", "RELEASE="+release)
		wg.Go(func() {
			if r := p.run(args...); r.code != 0 {
				p.t.Errorf("exit %d\n%s", r.code, r.all())
			}
		})
	}
	wg.Wait()
}

// repairs is how many routes control has repaired since it started.
func (p *plant) repairs() string {
	p.t.Helper()
	resp, err := http.Get("http://" + p.ops + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, `fairlead_control_repairs_total{what="routes"} `); ok {
			return strings.TrimSpace(n)
		}
	}
	return "0"
}

func TestRoutesDamagedInTheStoreAreRepairedWithinAPassAndNoRequestFails(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	services := []string{"edited", "emptied", "truncated", "aged", "removed"}
	p.deployAll("1", services...)
	old := p.sql("SELECT body FROM documents WHERE kind='routes' AND name='aged'")
	p.deployAll("2", services...)
	var callers []*caller
	for _, s := range services {
		p.agree(s, s+"-00002", 20*time.Second)
		callers = append(callers, p.call(s, 2, s+"-00002"))
	}
	callers[3].expect("aged-00002", "aged-00001") // which is what is published until the repair
	damage := func() {
		p.sql("UPDATE documents SET body=replace(body, 'edited-00002', 'edited-00009') WHERE kind='routes' AND name='edited';" +
			"UPDATE documents SET body='{}' WHERE kind='routes' AND name='emptied';" +
			"UPDATE documents SET body=substr(body, 1, length(body)/2) WHERE kind='routes' AND name='truncated';" +
			"UPDATE documents SET body='" + strings.ReplaceAll(old, "'", "''") + "' WHERE kind='routes' AND name='aged';" +
			"DELETE FROM documents WHERE kind='routes' AND name='removed'")
	}
	p.control.kill()
	damage()
	p.control.again()
	for round, want := range []string{"5", "10"} {
		eventually(t, 20*time.Second, want+" repairs are counted", func() bool { return p.repairs() == want })
		for i, s := range services {
			callers[i].more(40)
			p.agree(s, s+"-00002", 20*time.Second)
			if out := p.must("events", s).stdout; strings.Count(out, "published again") != round+1 {
				t.Errorf("the history of %s does not say each time that its routes were repaired:\n%s", s, out)
			}
		}
		if round == 0 {
			damage() // while control runs
		}
	}
	for _, c := range callers {
		c.end()
	}
}

func TestAGatewaysFileThatIsDamagedIsSetAsideSaidAndWrittenAnew(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.deploy("hello")
	p.agree("hello", "hello-00001", 10*time.Second)
	gw := p.gateways[0]
	file := filepath.Join(p.data, "gateway", gw.name, "routes")
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.deploy("hello", "--env", "A=b")
	p.agree("hello", "hello-00002", 10*time.Second)
	c := p.call("hello", 4, "hello-00002")
	whole := func() bool {
		b, err := os.ReadFile(file)
		return err == nil && bytes.Contains(b, []byte("hello-00002"))
	}
	for what, damage := range map[string]func(b []byte) []byte{
		"edited":    func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hello-00002"), []byte("hello-00009")) },
		"emptied":   func([]byte) []byte { return nil },
		"truncated": func(b []byte) []byte { return b[:len(b)*2/3] },
		"aged":      func([]byte) []byte { return old },
	} {
		gw.kill()
		b, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, damage(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		gw.process = p.startCommand(gw.command())
		eventually(t, 20*time.Second, "a gateway whose file was "+what+" answers as before", func() bool {
			return p.answeredBy(gw.name, "hello") == "hello-00002"
		})
		p.back(gw.name, 0) // for the callers
		eventually(t, 10*time.Second, "its file is written anew after it was "+what, whole)
		if what != "aged" && !strings.Contains(gw.out.String(), "set aside") {
			t.Errorf("a file that was %s is not said to be set aside:\n%s", what, gw.out)
		}
		c.more(40)
	}
	c.end()
}

func TestAGatewayWhoseFileIsDamagedAndThatFindsNoControlSaysSoUntilItFindsOne(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.deploy("hello")
	p.agree("hello", "hello-00001", 10*time.Second)
	c := p.call("hello", 4, "hello-00001")
	gw := p.gateways[0]
	file := filepath.Join(p.data, "gateway", gw.name, "routes")
	p.control.kill()
	gw.kill()
	if err := os.Truncate(file, 40); err != nil {
		t.Fatal(err)
	}
	gw.process = p.startCommand(gw.command())
	eventually(t, 20*time.Second, "it refuses, and says that it has no table", func() bool {
		return strings.HasPrefix(p.answeredBy(gw.name, "hello"), "503")
	})
	c.more(100) // by the other one
	p.control.again()
	eventually(t, 10*time.Second, "it answers once there is a control", func() bool { return p.answeredBy(gw.name, "hello") == "hello-00001" })
	p.back(gw.name, 0) // for the callers
	c.more(100)
	c.end()
}

func TestAStoreRestoredFromAnHourAgoStopsNothingThatServes(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	store := filepath.Join(p.data, "control", "store.db")
	p.deployAll("1", "hello", "still")
	p.agree("hello", "hello-00001", 10*time.Second)
	p.sql(".backup " + store + ".copy")
	p.deployAll("2", "hello", "later")
	p.deployAll("3", "hello")
	p.agree("hello", "hello-00003", 10*time.Second)
	p.collected("hello", "hello-00001")
	p.agree("later", "later-00001", 10*time.Second)
	pid := p.status("still").Instances[0].Pid
	hello, still, later := p.call("hello", 3), p.call("still", 2, "still-00001"), p.call("later", 2, "later-00001")
	hello.more(100)
	p.control.kill()
	for _, name := range []string{store, store + "-wal", store + "-shm"} {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Rename(store+".copy", store); err != nil {
		t.Fatal(err)
	}
	p.control.again()
	p.control.waitFor("the store is older than the world", 20*time.Second)
	// The plane follows the store, and what that does not know is served on and named.
	p.agree("hello", "hello-00001", 30*time.Second)
	hello.expect("hello-00001")
	for _, c := range []*caller{hello, still, later} {
		c.more(60)
	}
	if now := p.status("still").Instances; len(now) != 1 || now[0].Pid != pid {
		t.Errorf("what both know of was not left alone: %+v, expected pid %d", now, pid)
	}
	if out := p.run("explain", "later").all(); !strings.Contains(out, "gw1 serves it") {
		t.Errorf("a service that only gateways know is not explained:\n%s", out)
	}
	hello.expect()
	p.deploy("hello", "--env", "RELEASE=4")
	hello.more(60)
	if _, env, _ := p.get("hello", "/env"); !strings.Contains(env, "RELEASE=4\n") {
		t.Errorf("the deploy after it does not serve:\n%s", env)
	}
	for _, c := range []*caller{hello, still, later} {
		c.end()
	}
}
