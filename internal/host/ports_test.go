package host

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

func testPorts(t *testing.T, dir, holder string, first, last int, now func() time.Time) *ports {
	t.Helper()
	if err := os.MkdirAll(holder, 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := openPorts(Config{PortDir: dir, Dir: holder, PortFirst: first, PortLast: last, Now: now, Timing: Timing{PortRest: 10 * time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTwoInstallationsOnOneMachineNeverPickTheSamePort(t *testing.T) {
	dir := t.TempDir()
	a := testPorts(t, filepath.Join(dir, "ports"), filepath.Join(dir, "a"), 21000, 21099, time.Now)
	b := testPorts(t, filepath.Join(dir, "ports"), filepath.Join(dir, "b"), 21000, 21099, time.Now)
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken := map[int]string{} // :: port → instance
	for i := range 40 {
		for name, p := range map[string]*ports{"a": a, "b": b} {
			wg.Go(func() {
				id := name + strconv.Itoa(i)
				port, err := p.claim(id)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || taken[port] != "" {
					t.Errorf("%s got %d, which %q has: %v", id, port, taken[port], err)
				}
				taken[port] = id
			})
		}
	}
	wg.Wait()
	if len(taken) != 80 {
		t.Errorf("%d ports were given to 80 instances", len(taken))
	}
}

func TestAPortThatSomebodyListensOnIsPassedOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	p := testPorts(t, filepath.Join(t.TempDir(), "ports"), t.TempDir(), port, port, time.Now)
	if got, err := p.claim("x"); err == nil {
		t.Errorf("got %d, which is bound", got)
	}
}

func TestAPortRestsTenMinutesAfterItsLastHolder(t *testing.T) {
	now := time.Now()
	p := testPorts(t, filepath.Join(t.TempDir(), "ports"), t.TempDir(), 21200, 21200, func() time.Time { return now })
	port, err := p.claim("first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.claim("second"); err == nil {
		t.Fatal("a held port was given away")
	}
	ended := now
	now = now.Add(5 * time.Minute)
	if err := p.release(port, "first", ended); err != nil {
		t.Fatal(err)
	}
	now = ended.Add(10*time.Minute - time.Second)
	if _, err := p.claim("second"); err == nil {
		t.Fatal("a port was given away before it had rested")
	}
	now = ended.Add(10 * time.Minute)
	if _, err := p.claim("second"); err != nil {
		t.Errorf("after its rest: %v", err)
	}
	if err := p.release(port, "first", ended); err != nil {
		t.Fatal(err)
	}
	if _, err := p.claim("third"); err == nil {
		t.Error("an earlier holder gave up the port of a later one")
	}
}

func TestPortsOfADeletedInstallationAndOfForgottenInstancesComeBack(t *testing.T) {
	dir := t.TempDir()
	holder := filepath.Join(dir, "a")
	now := time.Now()
	a := testPorts(t, filepath.Join(dir, "ports"), holder, 21300, 21301, func() time.Time { return now })
	kept, err := a.claim("kept")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.claim("forgotten"); err != nil {
		t.Fatal(err)
	}
	if err := a.keepOnly(map[string]bool{"kept": true}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Minute)
	if got, err := a.claim("next"); err != nil || got == kept {
		t.Errorf("got %d, %v; want the port of the forgotten instance", got, err)
	}
	b := testPorts(t, filepath.Join(dir, "ports"), filepath.Join(dir, "b"), 21300, 21301, func() time.Time { return now })
	if _, err := b.claim("other"); err == nil {
		t.Fatal("ports of a living installation were given away")
	}
	if err := os.RemoveAll(holder); err != nil {
		t.Fatal(err)
	}
	if _, err := b.claim("other"); err != nil {
		t.Errorf("after the installation was deleted: %v", err)
	}
}

func TestAnEntryTornByACrashIsAsGoodAsNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ports")
	p := testPorts(t, dir, t.TempDir(), 21400, 21400, time.Now)
	if err := os.WriteFile(filepath.Join(dir, "21400"), []byte(`{"holder":"/to`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.claim("x"); err != nil {
		t.Error(err)
	}
}
