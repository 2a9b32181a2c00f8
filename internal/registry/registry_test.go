package registry

import (
	"fmt"
	"testing"
)

func rows(service, host string, n int) (all []Instance) {
	for i := range n {
		all = append(all, Instance{ID: fmt.Sprintf("%s-%s-%d", service, host, i), Service: service, Host: host, Address: "127.0.0.1:1"})
	}
	return all
}

func never(Instance) bool  { return false }
func always(Instance) bool { return true }

func TestNoSingleAnswerEmptiesAService(t *testing.T) {
	r := New(0)
	r.Sync(Listing{Source: Host, Host: "h", Rows: rows("s", "h", 10)}, never)
	out := r.Sync(Listing{Source: Host, Host: "h"}, never)
	if len(out.Gone) != 0 || len(out.Held) != 10 {
		t.Fatalf("an empty answer: %d gone, %d held; want none gone", len(out.Gone), len(out.Held))
	}
	out = r.Sync(Listing{Source: Host, Host: "h", Rows: rows("s", "h", 10)}, never)
	for _, x := range r.Of("s") {
		if x.Gone || x.Missing != 0 {
			t.Fatalf("the right answer after it leaves %+v", x)
		}
	}
	if len(out.Changed) != 10 {
		t.Errorf("%d changed", len(out.Changed))
	}
}

func TestASecondLaterListingConfirmsADrop(t *testing.T) {
	r := New(0)
	r.Sync(Listing{Source: Host, Host: "h", Rows: rows("s", "h", 10)}, never)
	few := rows("s", "h", 2)
	r.Sync(Listing{Source: Host, Host: "h", Rows: few}, never)
	if out := r.Sync(Listing{Source: Host, Host: "h", Rows: few}, never); len(out.Gone) != 8 {
		t.Errorf("%d gone; want the 8 that two listings lacked", len(out.Gone))
	}
}

func TestARealScaleDownLeavesAtOnce(t *testing.T) {
	r := New(0)
	r.Sync(Listing{Source: Host, Host: "h", Rows: rows("s", "h", 10)}, never)
	if out := r.Sync(Listing{Source: Host, Host: "h", Rows: rows("s", "h", 1)}, always); len(out.Gone) != 9 || len(out.Held) != 0 {
		t.Errorf("%d gone, %d held; want 9 gone", len(out.Gone), len(out.Held))
	}
}

func TestASmallDropLeavesAtOnce(t *testing.T) {
	r := New(0)
	r.Sync(Listing{Source: Host, Host: "h", Rows: rows("s", "h", 10)}, never)
	if out := r.Sync(Listing{Source: Host, Host: "h", Rows: rows("s", "h", 8)}, never); len(out.Gone) != 2 || len(out.Held) != 0 {
		t.Errorf("%d gone, %d held; want 2 gone", len(out.Gone), len(out.Held))
	}
}

func TestOneAnswerWithoutTheOnlyInstanceOfItsServiceThereTakesNobodyAndTheSecondDoes(t *testing.T) {
	r := New(0)
	all := append(rows("s", "h", 1), rows("other", "h", 3)...)
	r.Sync(Listing{Source: Host, Host: "h", Rows: all}, never)
	if out := r.Sync(Listing{Source: Host, Host: "h", Rows: all[1:]}, never); len(out.Gone) != 0 || len(out.Held) != 1 {
		t.Fatalf("one answer without it: %d gone, %d held; want it held", len(out.Gone), len(out.Held))
	}
	if out := r.Sync(Listing{Source: Host, Host: "h", Rows: all[1:], Again: true}, never); len(out.Gone)+len(out.Held)+len(out.Changed) != 0 {
		t.Fatalf("the same answer once more changes %+v", out)
	}
	if out := r.Sync(Listing{Source: Host, Host: "h", Rows: all[1:]}, never); len(out.Gone) != 1 || out.Gone[0].Service != "s" {
		t.Errorf("a second answer without it: %+v is gone, want it", out.Gone)
	}
}

func TestTheOnlyInstanceOfAServiceLeavesAtOnceWhereItsHostSaysWhy(t *testing.T) {
	r := New(0)
	r.Sync(Listing{Source: Host, Host: "h", Rows: rows("s", "h", 1)}, never)
	if out := r.Sync(Listing{Source: Host, Host: "h", Again: true}, always); len(out.Gone) != 1 {
		t.Errorf("%d gone, want it", len(out.Gone))
	}
}

func TestAListingSpeaksOnlyForItsOwnHost(t *testing.T) {
	r := New(0)
	r.Sync(Listing{Source: Host, Host: "a", Rows: rows("s", "a", 3)}, never)
	r.Sync(Listing{Source: Host, Host: "b", Rows: rows("s", "b", 3)}, never)
	r.Sync(Listing{Source: Lease, Rows: rows("s", "", 1)}, never)
	r.Sync(Listing{Source: Host, Host: "a"}, always)
	gone := 0
	for _, x := range r.Of("s") {
		if x.Gone {
			gone++
			if x.Host != "a" {
				t.Errorf("host a's answer took %+v", x)
			}
		}
	}
	if gone != 3 {
		t.Errorf("%d gone", gone)
	}
}

func TestAHandleIsNeverUsedAgain(t *testing.T) {
	r := New(7)
	seen := map[uint32]bool{}
	for i := range 20 {
		x, _ := r.Put(Instance{ID: fmt.Sprint(i), Service: "s"})
		if x.Handle <= 7 || seen[x.Handle] {
			t.Fatalf("handle %d", x.Handle)
		}
		seen[x.Handle] = true
		r.Remove(x.ID)
	}
	if _, ok := r.ByHandle(8); ok || r.Len() != 0 || len(r.Services()) != 0 {
		t.Error("something removed is still there")
	}
}

func TestOnceReadyIsKept(t *testing.T) {
	r := New(0)
	r.Put(Instance{ID: "i", Service: "s", EverReady: true})
	if x, changed := r.Put(Instance{ID: "i", Service: "s"}); !x.EverReady || changed {
		t.Errorf("got %+v, changed %v", x, changed)
	}
}

func TestAServiceIsOfOneSourceOnlyIfAllItsRowsAre(t *testing.T) {
	r := New(0)
	if r.Only("s", External) {
		t.Error("a service without rows is of a source")
	}
	r.Put(Instance{ID: "a", Service: "s", Source: External})
	if !r.Only("s", External) || r.Only("s", Host) {
		t.Error("a service with one external row is not external only")
	}
	r.Put(Instance{ID: "b", Service: "s", Source: Lease})
	if r.Only("s", External) || r.Only("s", Lease) {
		t.Error("a service of two sources is of one only")
	}
}
