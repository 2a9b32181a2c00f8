package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

func always([]Record) bool { return true }

// replaced has i2 replaced n times: each comes and goes.
func (r *rig) replaced(n int) {
	for range n {
		r.replacements++
		r.hosts.edit(func() { r.hosts.all[1].ID = fmt.Sprint("j", r.replacements) })
		time.Sleep(5 * time.Second)
	}
	synctest.Wait()
}

// whole is the history in the store and in the archive, each record once.
func (r *rig) whole() []Record {
	r.t.Helper()
	all, err := NewArchive(r.bucket).Transitions(context.Background(), "s", r.history(), always)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func TestHistoryIsBoundedAndErasedFromTheStoreOnlyAfterItIsSealed(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(2 * time.Second)
		r.bucket.breaks(true)
		r.replaced(KeptTransitions/2 + 30)
		kept := len(r.history())
		if kept < KeptTransitions+slackTransitions {
			t.Fatalf("%d transitions are in the store while the bucket is out of reach", kept)
		}
		if got := l.current().records.inStore(); got != kept {
			t.Errorf("%d are said to be in the store, %d are", got, kept)
		}
		r.bucket.breaks(false)
		r.replaced(10)
		h := r.history()
		if len(h) > KeptTransitions+slackTransitions || len(h) < KeptTransitions {
			t.Errorf("%d transitions are in the store after they could be sealed", len(h))
		}
		if h[0].Instance != "i1" {
			t.Errorf("the only record of i1 is gone; the oldest is of %s", h[0].Instance)
		}
		if n := len(r.whole()); n < kept+20 {
			t.Errorf("%d transitions are left of %d and 20 more", n, kept)
		}
		parts, err := r.bucket.List(context.Background(), archivePrefix)
		if err != nil || len(parts) == 0 {
			t.Fatalf("parts: %v %v", parts, err)
		}
		for _, p := range parts {
			if until, retained := bucket.RetainedUntil(p.Name); !retained || until.Before(time.Now().AddDate(retention, 0, 0)) {
				t.Errorf("%s is not retained for five years", p.Name)
			}
		}
	})
}

func TestHistoryThatWasSealedAndNotYetErasedIsReadOnce(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(2 * time.Second)
		r.replaced(5)
		all := r.history()
		var docs []Sealed
		for _, x := range all {
			docs = append(docs, Sealed{Kind: service.KindTransition, Name: x.key().Name, At: x.At, Body: x.write().Body})
		}
		for range 2 { // and so is a part that was sealed again
			if err := NewArchive(r.bucket).Seal(context.Background(), "s", docs, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(all, r.whole()); d != "" {
			t.Error(d)
		}
		if parts, _ := r.bucket.List(context.Background(), archivePrefix); len(parts) != 1 {
			t.Errorf("the same records are in %d parts", len(parts))
		}
	})
}

func TestTheHistoryOfAServiceOutlivesIt(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.declare(DefaultContract())
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		r.putPolicy(Policy{Service: "s", At: time.Now(), What: "contract"})
		time.Sleep(3 * time.Second)
		r.hosts.edit(func() { r.hosts.all = nil })
		time.Sleep(15 * time.Second)
		synctest.Wait()
		before := r.history()
		l.lead.mu.Lock()
		l.lead.deleted = true
		l.lead.mu.Unlock()
		time.Sleep(3 * collectEvery * sealEvery)
		synctest.Wait()
		if n := len(r.history()); n != 0 {
			t.Errorf("%d transitions are left in the store", n)
		}
		if d := cmp.Diff(before, r.whole()); d != "" || len(before) == 0 {
			t.Errorf("the sealed history differs:\n%s", d)
		}
		policies := 0
		err := NewArchive(r.bucket).Read(context.Background(), "s", func(docs []Sealed) bool {
			for _, d := range docs {
				if d.Kind == service.KindPolicy {
					policies++
				}
			}
			return true
		})
		if err != nil || policies != 1 {
			t.Errorf("%d changes of policy are sealed: %v", policies, err)
		}
	})
}

func (r *rig) putPolicy(p Policy) {
	r.t.Helper()
	body, err := json.Marshal(p)
	if err != nil {
		r.t.Fatal(err)
	}
	w := store.Write{Key: store.Key{Kind: service.KindPolicy, Name: "s.1"}, Any: true, Body: body}
	if _, err := r.store.Apply(context.Background(), store.Apply{ID: "policy", Writes: []store.Write{w}}); err != nil {
		r.t.Fatal(err)
	}
}

func TestOldHistoryIsSealedThoughItIsLittle(t *testing.T) {
	r := newRecords(nil, nil, func(id string) bool { return id == "lives" })
	for tick, id := range map[int64]string{10: "lives", 20: "gone", 30: "gone", sealWith + 100: "gone"} {
		r.note(Record{Service: "s", Instance: id, Tick: tick, Row: registry.Instance{Handle: 1}})
	}
	names := func(now int64) (out []int64) {
		for _, e := range r.beyond("s", now) {
			out = append(out, e.tick)
		}
		return out
	}
	if got := names(sealAfter + 20); got != nil {
		t.Errorf("before it is old %v is sealed", got)
	}
	if d := cmp.Diff([]int64{20, 30}, names(sealAfter+21)); d != "" { // and neither the last of one that lives, nor what is young
		t.Error(d)
	}
}

func (r *rig) rows() (rows []registry.Instance, versions map[string]uint64) {
	r.t.Helper()
	docs, _, err := r.store.List(context.Background(), service.KindInstance)
	if err != nil {
		r.t.Fatal(err)
	}
	versions = map[string]uint64{}
	for _, d := range docs {
		var x registry.Instance
		if err := json.Unmarshal(d.Body, &x); err != nil {
			r.t.Fatal(err)
		}
		rows, versions[x.ID] = append(rows, x), d.Version
	}
	return rows, versions
}

func TestRowsAreWrittenWhenTheyChangeAndWithTheTransitionsOfTheSecond(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		rows, versions := r.rows()
		if len(rows) != 2 || !rows[0].EverReady || rows[0].Handle == rows[1].Handle {
			t.Fatalf("the rows are %+v", rows)
		}
		docs, _, err := r.store.List(context.Background(), service.KindTransition)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			var x Record
			if err := json.Unmarshal(d.Body, &x); err != nil {
				t.Fatal(err)
			}
			if d.Version != versions[x.Instance] {
				t.Errorf("the row of %s is of commit %d, its first transition of %d", x.Instance, versions[x.Instance], d.Version)
			}
		}
		for i := range 10 { // a ready path that comes and goes is no change of a row, nor is another listing
			r.hosts.set("i1", []service.InstanceState{service.InstanceStarting, service.InstanceLive}[i%2])
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if _, now := r.rows(); cmp.Diff(versions, now) != "" {
			t.Errorf("rows were written though nothing changed: %v, %v", versions, now)
		}
		r.hosts.edit(func() { r.hosts.all = r.hosts.all[:1] })
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if rows, _ := r.rows(); len(rows) != 1 {
			t.Errorf("the row of one that is gone is left: %+v", rows)
		}
	})
}

func TestATerminatingInstanceIsNotInTheFirstViewOfATerm(t *testing.T) {
	inRegion(t, func(r *rig) {
		c := DefaultContract()
		c.Profile = eligibility.Profile{Outcomes: true} // what it says of itself is not read: no verdict tells
		r.declare(c)
		r.hosts.run(2)
		first := r.begin()
		time.Sleep(3 * time.Second)
		r.hosts.set("i2", service.InstanceDraining)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		first.stop()
		r.hosts.edit(func() { r.hosts.away = true })
		second := r.begin()
		defer second.stop()
		synctest.Wait()
		v := second.View("s")
		if v == nil || len(v.Endpoints) != 1 || v.Endpoints[0].ID != "i1" {
			t.Errorf("the first view of the term is %+v", v)
		}
	})
}

func (r *rig) eraseAll(kinds ...string) {
	r.t.Helper()
	for _, kind := range kinds {
		docs, _, err := r.store.List(context.Background(), kind)
		if err != nil {
			r.t.Fatal(err)
		}
		for i, d := range docs {
			if _, err := r.store.Apply(context.Background(), store.Apply{ID: fmt.Sprint(kind, i), Writes: []store.Write{erase(d.Key)}}); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func TestWhereNoRowsWereKeptTheRecordedTransitionsStandForThem(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		first := r.begin()
		time.Sleep(3 * time.Second)
		r.hosts.set("i2", service.InstanceStarting)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		first.stop()
		r.eraseAll(service.KindInstance, service.KindHandles)
		r.hosts.edit(func() { r.hosts.away = true })
		second := r.begin()
		defer second.stop()
		r.expect(second, "i1 eligible serving, i2 ineligible says-unready")
	})
}

func TestAHandleIsNeverUsedAgainThoughAllTracesOfItAreGone(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		first := r.begin()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		var top uint32
		first.peek(func(x *term) { top = x.reg.Next() })
		first.stop()
		r.eraseAll(service.KindTransition, service.KindInstance)
		r.bucket.mu.Lock()
		clear(r.bucket.held)
		r.bucket.mu.Unlock()
		second := r.begin()
		defer second.stop()
		r.hosts.edit(func() { r.hosts.all[2].ID = "new" })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		second.peek(func(x *term) {
			for _, row := range x.reg.Of("s") {
				if row.Handle < top {
					t.Errorf("%s has handle %d, which was given away before", row.ID, row.Handle)
				}
			}
		})
	})
}

func TestABucketThatHangsWhileAServiceIsBuriedDelaysNoVerdict(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.declare(DefaultContract())
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		r.hosts.edit(func() { r.hosts.all = nil })
		time.Sleep(15 * time.Second)
		l.lead.mu.Lock()
		l.lead.deleted = true
		l.lead.mu.Unlock()
		r.bucket.hangs.Store(true)
		sealed := func() (n uint64) {
			synctest.Wait()
			l.peek(func(x *term) { n = x.sealed })
			return n
		}
		before := sealed()
		time.Sleep(3 * collectEvery * sealEvery)
		if n := sealed() - before; n != 3*collectEvery*uint64(sealEvery/time.Second) {
			t.Errorf("%d seconds were taken in, of %s", n, 3*collectEvery*sealEvery)
		}
	})
}

func TestHandlesAreReservedBeforeTheyAreUsed(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		time.Sleep(time.Second)
		synctest.Wait()
		l.peek(func(x *term) { // as many as that came and went
			x.reg.Put(registry.Instance{ID: "far", Service: "s", Handle: handleBlock/2 + 100, Source: registry.Host})
			x.reg.Remove("far")
		})
		time.Sleep((sweepEvery + 2) * time.Second)
		synctest.Wait()
		d, err := r.store.Get(context.Background(), handlesKey)
		if err != nil {
			t.Fatal(err)
		}
		var h handles
		if err := json.Unmarshal(d.Body, &h); err != nil {
			t.Fatal(err)
		}
		l.peek(func(x *term) {
			if next := x.reg.Next(); h.Next < next+handleBlock/2 {
				t.Errorf("the next handle is %d, and they are reserved up to %d", next, h.Next)
			}
		})
	})
}
