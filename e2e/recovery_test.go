package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// grace is longer than the collector's.
const grace = 12 * time.Second

// again is long enough for a failed attempt to be tried again, and to end.
const again = 75 * time.Second

// one, two and three are the names of a service's revisions.
func one(service string) string   { return service + "-00001" }
func two(service string) string   { return service + "-00002" }
func three(service string) string { return service + "-00003" }

func TestAfterEveryFailureGatewaysRoutesCatalogAndTheAnswerAgree(t *testing.T) {
	t.Parallel()
	whole, f := newFaultyPlant(t)
	whole.deploy("teardown")
	padHistory(whole, "teardown", 490)
	for name, scenario := range map[string]func(t *testing.T, p *plant, f *faults, name string){
		"own":       failsOnce("deploy finalize:"),
		"shared":    failsOnce("deploy finalize:", "--request-group", "workers"),
		"exclusive": failsOnce("deploy finalize:", "--handover", "exclusive"),
		"half-done": failsOnce("deploy ready:", "--handover", "exclusive"),
		"back-off":  rollbackInTheBackOff,
		"record":    rollbackWhoseRecordFails,
		"landed":    publishThatErrsAndLanded,
		"life":      deleteAndCreateAgain,
		"teardown":  writeDuringATeardown,
		"pending":   pendingOutlivesItsBackOff,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := whole.in(t)
			scenario(t, p, f, name)
			p.neverRepaired(name)
		})
	}
}

// failsOnce deploys twice; the second deploy's record of a step fails, by which
// the new revision has been published, or the old one stopped. All is put back,
// and the retry finishes the same revision.
func failsOnce(record string, flags ...string) func(t *testing.T, p *plant, f *faults, name string) {
	return func(t *testing.T, p *plant, f *faults, name string) {
		p.deploy(name, flags...)
		c := p.call(name, 2, one(name))
		c.more(50)
		fault := f.at(t, crashpoints.NotLanded, "event "+name+".", record)
		c.expect(one(name), two(name))
		p.fails("it failed, as the case asks for", p.deployArgs(name, append(flags, "--env", "A=b")...)...)
		fault.hit(1, time.Second)
		p.agree(name, one(name), 0)
		c.expect(one(name))
		for _, r := range p.status(name).Revisions {
			if r.Name == two(name) && r.State == "serving" {
				t.Errorf("%s never served, and is marked as serving", r.Name)
			}
		}
		p.stays(name, one(name), grace)
		c.expect(one(name), two(name))
		p.agree(name, two(name), again)
		c.expect(two(name))
		c.more(50)
		p.finished(name, 2, 2)
		c.end()
		turns := 1 // from one revision to the other; the failed try may end before a request comes by
		if record == "deploy finalize:" {
			turns = 3
		}
		if got := c.order(); slices.Contains(flags, "exclusive") && (len(got) > turns+1 || got[0] != one(name) || got[len(got)-1] != two(name)) {
			t.Errorf("two revisions ran at once: executed by %v in turn", got)
		}
	}
}

// deployTwice has two revisions, of which the second serves and the first is warm.
func deployTwice(p *plant, name string) *caller {
	p.deploy(name)
	c := p.call(name, 2, one(name))
	c.more(20)
	c.expect(one(name), two(name))
	p.deploy(name, "--env", "A=b")
	p.agree(name, two(name), 10*time.Second)
	c.expect(two(name))
	return c
}

// A deploy that failed after publication waits for its retry when a rollback
// comes: the rollback stays.
func rollbackInTheBackOff(t *testing.T, p *plant, f *faults, name string) {
	c := deployTwice(p, name)
	f.at(t, crashpoints.NotLanded, "event "+name+".", "deploy finalize:")
	c.expect(two(name), three(name))
	p.fails("it failed, as the case asks for", p.deployArgs(name, "--env", "A=c")...)
	p.agree(name, two(name), 0)
	c.expect(one(name), two(name))
	p.must("rollback", name)
	p.agree(name, one(name), 10*time.Second)
	c.expect(one(name))
	p.stays(name, one(name), 40*time.Second)
	if n := len(p.status(name).Revisions); n != 3 {
		t.Errorf("%d revisions, expected 3", n)
	}
	c.end()
}

// A rollback that was published and could not be recorded is taken back, and
// what serves outlives the collector's grace.
func rollbackWhoseRecordFails(t *testing.T, p *plant, f *faults, name string) {
	c := deployTwice(p, name)
	fault := f.at(t, crashpoints.NotLanded, "event "+name+".", "traffic record:")
	c.expect(one(name), two(name))
	p.fails("it failed, as the case asks for", "rollback", name)
	fault.hit(1, time.Second)
	p.agree(name, two(name), 0)
	c.expect(two(name))
	p.stays(name, two(name), grace)
	c.more(50)
	c.expect(one(name), two(name))
	p.agree(name, one(name), again)
	c.end()
}

// A publication whose error came although it had landed, a deploy's and then a
// rollback's: the controller looks, and goes on from what it finds.
func publishThatErrsAndLanded(t *testing.T, p *plant, f *faults, name string) {
	p.deploy(name)
	c := p.call(name, 2, one(name))
	c.more(20)
	for _, x := range []struct {
		to   string
		args []string
	}{
		{two(name), p.deployArgs(name, "--env", "A=b")},
		{one(name), []string{"rollback", name}},
	} {
		fault := f.at(t, crashpoints.Landed, "event "+name+".", "published:")
		c.expect(one(name), two(name))
		p.must(x.args...)
		fault.hit(1, time.Second)
		p.agree(name, x.to, 10*time.Second)
		c.expect(x.to)
		p.stays(name, x.to, grace)
	}
	if n := len(p.status(name).Revisions); n != 2 {
		t.Errorf("%d revisions, expected 2", n)
	}
	c.end()
}

// A service that was deleted and is made again runs every step, under the same names.
func deleteAndCreateAgain(t *testing.T, p *plant, _ *faults, name string) {
	for range 2 {
		out := p.must(p.deployArgs(name)...).stdout
		for _, step := range []string{"queue", "install", "instances", "ready", "routes", "finalize"} {
			if !strings.Contains(out, step+" ") {
				t.Errorf("step %s was not run:\n%s", step, out)
			}
		}
		p.agree(name, one(name), 10*time.Second)
		c := p.call(name, 2, one(name))
		c.more(50)
		c.end()
		p.must("delete", name)
		if code, _, _ := p.get(name, "/"); code != 404 {
			t.Errorf("answered %d after the deletion, expected 404", code)
		}
	}
	p.deploy(name)
}

// padHistory gives the service so many events, while no control runs.
func padHistory(p *plant, name string, n int) {
	p.t.Helper()
	p.control.kill()
	var a store.Apply
	a.ID = ulid.Make().String()
	for i := range n {
		key := store.Key{Kind: service.KindEvent, Name: name + "." + ulid.Make().String()}
		a.Writes = append(a.Writes, store.Write{Key: key, Body: fmt.Appendf(nil, `{"service":%q,"kind":"step","text":"event %d"}`, name, i)})
	}
	p.edit(func(s store.Store) error {
		_, err := s.Apply(context.Background(), a)
		return err
	})
	p.control.again()
}

// A document written while a long history is being erased survives the teardown.
func writeDuringATeardown(t *testing.T, p *plant, f *faults, name string) {
	slow := f.set(t, crashpoints.Rule{Fault: crashpoints.Late, Delay: time.Second, Always: true, Call: []string{"-event " + name + "."}})
	deletion := p.start("delete", name)
	slow.hit(2, 30*time.Second) // the count of the history falls
	created := p.start(p.deployArgs(name)...)
	eventually(t, 20*time.Second, "the write is acknowledged", func() bool {
		r := p.run("status", name, "-o", "json")
		return r.code == 0 && !strings.Contains(r.stdout, `"deleting": true`)
	})
	if slow.hits() >= 6 {
		t.Fatalf("the teardown was over before the write: %d parts", slow.hits())
	}
	slow.lift()
	if err := created.wait(again); err != nil {
		t.Errorf("the deploy: %v\n%s", err, created.out)
	}
	if err := deletion.wait(5 * time.Second); err == nil || !strings.Contains(deletion.out.String(), "superseded by generation 3") {
		t.Errorf("the deletion should have ended as superseded: %v\n%s", err, deletion.out)
	}
	p.agree(name, one(name), again)
	c := p.call(name, 2, one(name))
	c.more(50)
	p.stays(name, one(name), grace)
	c.end()
}

// A revision whose attempt failed is not collected while its retry is waited
// for, and is the one that the retry finishes.
func pendingOutlivesItsBackOff(t *testing.T, p *plant, _ *faults, name string) {
	p.deploy(name)
	c := p.call(name, 2, one(name))
	c.more(20)
	missing := filepath.Join(p.ledger(name), "needed")
	args := append(p.deployArgs(name, "--ready-timeout", "5s"), "-needs", missing)
	p.fails("exit status 8", args...)
	failed := time.Now()
	p.stays(name, one(name), grace)
	s := p.status(name)
	if len(s.Revisions) != 2 || s.Deployment.State != "waiting" || s.Deployment.Revision != two(name) {
		t.Errorf("%s after the failure it should wait: %+v %+v", time.Since(failed), s.Deployment, s.Revisions)
	}
	if err := os.WriteFile(missing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.expect(one(name), two(name))
	p.agree(name, two(name), again)
	c.expect(two(name))
	c.more(20)
	p.finished(name, 2, 2)
	c.end()
}
