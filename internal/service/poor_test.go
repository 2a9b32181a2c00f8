package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// judgedWorld has hosts, each with live instances, written as "host:service+"
// for one in rotation and "host:service-" for one that is out.
func judgedWorld(text string) *World {
	w := &World{Hosts: map[string]HostState{}, Instances: map[string][]Instance{}}
	out := map[string]bool{} // :: instance
	for i, x := range strings.Fields(text) {
		host, name, _ := strings.Cut(x, ":")
		id := fmt.Sprint("i", i)
		out[id] = strings.HasSuffix(name, "-")
		name = strings.TrimRight(name, "+-")
		h := w.Hosts[host]
		h.Host, h.Connected, h.Reported = Host{Name: host, Zone: host[:1]}, true, true
		if name != "" {
			in := Instance{ID: id, Slot: fmt.Sprintf("%s-00001.%d", name, i), Service: name, Revision: name + "-00001", Host: host, State: InstanceLive}
			h.Instances = append(h.Instances, in)
			w.Instances[in.Slot] = []Instance{in}
		}
		w.Hosts[host] = h
	}
	w.Out = func(_, instance string) bool { return out[instance] }
	poor := w.PoorHosts()
	w.Poor = func(host string) string { return poor[host] }
	return w
}

func (w *World) revision(name string) Revision {
	r := Revision{Name: name + "-00001", Service: name}
	for i := range 10 {
		id := SlotID(r.Name, i)
		if ps := w.Instances[id]; len(ps) > 0 {
			r.Slots = append(r.Slots, Slot{ID: id, Host: ps[0].Host, Zone: ps[0].Host[:1]})
		}
	}
	return r
}

func TestWhoIsOutOfRotationIsTheFirstToBeStopped(t *testing.T) {
	for _, x := range []struct {
		world string
		n     int
		left  string
	}{
		{"a:s- b:s+ c:s+", 2, "1 2"},
		{"a:s+ b:s- c:s+", 2, "0 2"},
		{"a:s- b:s- c:s+", 1, "2"},
		{"a:s- b:s- c:s+", 2, "0 2"}, // no more than are to go, the youngest first
		{"a:s+ b:s+ c:s-", 3, "0 1 2"},
		{"a:s+ b:s+ c:s+", 2, "0 1"}, // as ever
	} {
		w := judgedWorld(x.world)
		r := w.revision("s").Yield(x.n, w)
		var left []string
		for _, s := range r.Slots {
			left = append(left, strings.TrimPrefix(s.ID, "s-00001."))
		}
		if got := strings.Join(left, " "); got != x.left || len(r.Slots)+len(r.Leaving) != 3 {
			t.Errorf("%s to %d: left %s, want %s", x.world, x.n, got, x.left)
		}
	}
	if r := judgedWorld("a:s- b:s+").revision("s").Yield(1, &World{}); len(r.Slots) != 1 {
		t.Errorf("without verdicts %d slots are left", len(r.Slots))
	}
}

func TestARestartBeginsWithWhoIsOutAndEndsWithWhoDoesWell(t *testing.T) {
	for _, x := range []struct{ world, doubted, want string }{
		{"a:s+ b:s- c:s+", "", "1 0 2"},
		{"a:s+ b:s+ c:s-", "i0 i2", "2 0 1"},
		{"a:s+ b:s+ c:s+", "i1 i2", "1 2 0"},
		{"a:s+ b:s+ c:s+", "", "0 1 2"},
	} {
		w := judgedWorld(x.world)
		w.Doubts = func(_, instance string) bool { return slices.Contains(strings.Fields(x.doubted), instance) }
		r := w.revision("s")
		var got []string
		for _, s := range r.WorstFirst(r.Slots, w) {
			got = append(got, strings.TrimPrefix(s.ID, "s-00001."))
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%s, doubted %q: the order is %v, want %s", x.world, x.doubted, got, x.want)
		}
	}
	w := judgedWorld("a:s+ b:s+")
	r := w.revision("s")
	w.Instances[r.Slots[1].ID][0].State = InstanceExited
	if got := r.WorstFirst(r.Slots, w); got[0].ID != "s-00001.1" {
		t.Errorf("nothing runs in the second slot, and first is %s", got[0].ID)
	}
}

func TestAHostWhoseInstancesAreAllOutWhileSiblingsElsewhereServeIsAvoidedAndThatIsSaid(t *testing.T) {
	for _, x := range []struct {
		world string
		poor  string
		goes  string // where the next instance of s is placed
	}{
		{"a:s- a:t- b:s+ b:t+ b:u+", "a", "b"},
		{"a:s- a:t- b:u+", "", "a"},      // nothing of the same serves elsewhere: not the host
		{"a:s- b:s+ b:u+", "", "a"},      // one alone says nothing of its host
		{"a:s- a:s- a:t+ b:s+", "", "b"}, // something serves there
		{"a:s- a:s-", "", "a"},
	} {
		w := judgedWorld(x.world)
		var poor []string
		for host, why := range w.PoorHosts() {
			poor = append(poor, host)
			if !strings.Contains(why, "host a is avoided where another can take what is placed: none of the 2 instances there") || !strings.Contains(why, "while s, t serves elsewhere") {
				t.Errorf("it is said: %s", why)
			}
		}
		if got := strings.Join(poor, " "); got != x.poor {
			t.Errorf("%s: avoided are %q, want %q", x.world, got, x.poor)
		}
		r, err := Revision{Name: "n-00001", Service: "n"}.Grow(1, w)
		if err != nil || r.Slots[0].Host != x.goes && x.poor != "" {
			t.Errorf("%s: placed on %v, %v", x.world, r.Slots, err)
		}
	}
	w := judgedWorld("a:s- a:t- b:s+ b:t+")
	h := w.Hosts["b"]
	h.Connected = false
	w.Hosts["b"] = h
	if r, err := (Revision{Name: "n-00001"}).Grow(1, w); err != nil || r.Slots[0].Host != "a" {
		t.Errorf("where there is no other host it takes %v, %v", r.Slots, err)
	}
}
