package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/sqlite"
)

// edit opens the store while no control runs.
func (p *plant) edit(f func(s store.Store) error) {
	p.t.Helper()
	path := filepath.Join(p.data, "control", "store.db")
	if _, err := os.Stat(path); err != nil {
		p.t.Fatal(err)
	}
	s, err := sqlite.Open(sqlite.Options{Path: path})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := f(s); err != nil {
		p.t.Errorf("cannot edit the store: %v", err)
	}
	if err := s.Close(); err != nil {
		p.t.Fatal(err)
	}
}

// markServing marks a revision as serving, as a controller would that wrote it
// before the traffic and died between.
func markServing(name string) func(s store.Store) error {
	return func(s store.Store) error {
		ctx := context.Background()
		d, err := s.Get(ctx, store.Key{Kind: service.KindRevision, Name: name})
		if err != nil {
			return err
		}
		body := bytes.Replace(d.Body, []byte(`"state":"failed"`), []byte(`"state":"serving"`), 1)
		_, err = s.Apply(ctx, store.Apply{ID: ulid.Make().String(), Writes: []store.Write{{Key: d.Key, Expect: d.Version, Body: body}}})
		return err
	}
}

// forgetsSlots has a host start as one that was never assigned anything.
func (p *plant) forgetsSlots(host string) {
	p.t.Helper()
	for _, folder := range []string{"slots", "instances"} {
		dir := filepath.Join(p.data, "host", host, folder)
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) == 0 {
			p.t.Fatalf("%s holds nothing to be forgotten: %v", dir, err)
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

func TestAServiceThatCannotBeRepairedDelaysNoOtherAndARevisionMarkedServingThatNeverServedIsResumed(t *testing.T) {
	t.Parallel()
	p, f := newFaultyPlant(t)
	others := []string{"before", "zulu"} // by name before and after the one that cannot be repaired
	callers := map[string]*caller{}
	p.deploy("hello", "--instances", "2")
	for _, s := range others {
		p.deploy(s, "--instances", "2")
		callers[s] = p.call(s, 2, one(s))
	}
	// A deploy that failed at its last record, which says of the revision what is not so.
	p.deploy("marked")
	callers["marked"] = p.call("marked", 2)
	f.at(t, crashpoints.NotLanded, "event marked.", "deploy finalize:")
	p.fails("it failed, as the case asks for", p.deployArgs("marked", "--env", "A=b")...)
	p.agree("marked", one("marked"), 10*time.Second)

	for _, s := range []string{"hello", "before", "zulu", "marked"} {
		p.away(instancesOf(s))
	}
	for _, m := range append([]*member{p.control}, p.hosts...) {
		m.kill()
	}
	killStrays(t, filepath.Join(p.data, "host"))
	p.edit(markServing(two("marked")))
	for _, h := range p.hosts {
		p.forgetsSlots(h.name)
	}
	refused := f.always(t, crashpoints.NotLanded, "assign hello-00001")
	for _, m := range append([]*member{p.control}, p.hosts...) {
		m.again()
	}
	for _, s := range others {
		p.agree(s, one(s), 20*time.Second)
		p.back(instancesOf(s), noticed)
		callers[s].more(20)
		callers[s].expect(one(s), two(s))
		p.must(p.deployArgs(s, "--env", "A=b")...)
		p.agree(s, two(s), 10*time.Second)
		callers[s].expect(two(s))
		callers[s].end()
	}
	p.agree("marked", one("marked"), 20*time.Second)
	p.back(instancesOf("marked"), noticed)
	p.control.waitFor(`msg="a service could not be brought to what is wanted" part=control service=hello`, 10*time.Second)
	p.agree("marked", two("marked"), again)
	if s := p.status("marked"); len(s.Revisions) != 2 {
		t.Errorf("a sibling was minted: %+v", s.Revisions)
	}
	callers["marked"].end()
	refused.lift()
	p.agree("hello", one("hello"), again)
}

func TestWhatAKilledInstanceHeldEndsAtOnceAndNothingElseIsLost(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	p.deploy("hello", "--instances", "2")
	c := p.call("hello", 8, one("hello"))
	for _, host := range p.hosts {
		c.more(100)
		p.killInstances("hello", host.name)
		eventually(t, 20*time.Second, "it is started again", func() bool {
			n := 0
			for _, i := range p.status("hello").Instances {
				if i.State == "live" {
					n++
				}
			}
			return n == 2
		})
		c.more(100)
	}
	c.end()
}
