package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
)

func TestAStoreThatIsSlowByFiveSecondsOrReadOnlyStopsNothingThatServesAndLosesNothing(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	slow := startRelay(t, filepath.Join(server.Folder, ".s.PGSQL.5432"))
	p := newPlant(t, plantOptions{controlArgs: []string{"--store", strings.Replace(server.URL, server.Folder, filepath.Dir(slow.address), 1)}})
	p.deploy("hello")
	p.agree("hello", "hello-00001", 10*time.Second)
	c := p.call("hello", 4, "hello-00001", "hello-00002")
	c.more(100)

	slow.delay(5 * time.Second)
	p.troubled(c, "A=b")
	slow.delay(0)
	p.deploy("hello", "--env", "A=b")
	p.agree("hello", "hello-00002", 60*time.Second)
	c.expect("hello-00002")
	c.more(100)

	set := func(value string) {
		t.Helper()
		for _, sql := range []string{"ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()"} {
			if out, err := server.Command("psql", "-h", server.Folder, "-U", "postgres", "-c", "SET default_transaction_read_only = off", "-c", sql).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	set("on")
	if said := p.troubled(c, "A=c"); !strings.Contains(said, "read-only") && !strings.Contains(said, "leads") {
		t.Errorf("the deploy does not say why it could not be:\n%s", said)
	}
	set("off")
	c.expect("hello-00002", "hello-00003")
	p.deploy("hello", "--env", "A=c")
	p.agree("hello", "hello-00003", 60*time.Second)
	c.more(100)
	c.end()
	if n := len(p.status("hello").Revisions); n != 3 {
		t.Errorf("%d revisions, expected 3: each intent is met once", n)
	}
}

// troubled deploys while the store is in trouble, which ends with a reason or
// goes on later, while what serves does.
func (p *plant) troubled(c *caller, env string) string {
	p.t.Helper()
	d := p.start(p.deployArgs(c.service, "--env", env, "--wait", "15s")...)
	c.more(300)
	if err := d.wait(90 * time.Second); err == nil || !strings.Contains(d.out.String(), "fairlead: ") {
		p.t.Errorf("the deploy ended with %v, expected a failure that gives its reason:\n%s", err, d.out)
	}
	p.t.Logf("it says:\n%s", d.out)
	return d.out.String()
}
