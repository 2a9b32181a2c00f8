package service

import (
	"fmt"
	"strings"
	"testing"
)

func TestWhatTheSpreadingRuleWouldPlaceElsewhereHasGathered(t *testing.T) {
	for name, c := range map[string]struct {
		hosts string // of which each is in the zone of its first letter
		slots string
		moves string
	}{
		"spread":                        {"a1 b1", "a1 b1 a1", ""},
		"all on one":                    {"a1 b1", "a1 a1 a1", "a1"},
		"two on one":                    {"a1 b1", "a1 a1", "a1"},
		"of four all on one":            {"a1 b1", "a1 a1 a1 a1", "a1 a1"},
		"one alone":                     {"a1 b1", "a1", ""},
		"there is one host":             {"a1", "a1 a1", ""},
		"in one zone":                   {"a1 a2", "a1 a1 a1", "a1"},
		"zones come before hosts":       {"a1 a2 b1", "a1 a2 b1 b1", ""},
		"three in the fuller zone":      {"a1 a2 b1", "a1 a1 a2", "a1"},
		"a third host that has nothing": {"a1 b1 c1", "a1 b1 a1", "a1"},
	} {
		w := &World{Hosts: map[string]HostState{}}
		for _, h := range strings.Fields(c.hosts) {
			w.Hosts[h] = HostState{Host: Host{Name: h, Zone: h[:1]}, Connected: true, Reported: true}
		}
		r := Revision{Name: "hello-00001", Service: "hello"}
		for i, h := range strings.Fields(c.slots) {
			r.Slots = append(r.Slots, Slot{ID: fmt.Sprintf("hello-00001.%d", i), Host: h, Zone: h[:1]})
		}
		var from []string
		for _, s := range r.Gathered(w) {
			from = append(from, s.Host)
		}
		if got := strings.Join(from, " "); got != c.moves {
			t.Errorf("%s: from %q, expected %q", name, got, c.moves)
		}
	}
}

func TestWhatHasGatheredIsSaidWithWhatToDo(t *testing.T) {
	w := twoHosts()
	r := Revision{Name: "hello-00001", Service: "hello"}
	for i := range 3 {
		r.Slots = append(r.Slots, Slot{ID: SlotID(r.Name, i), Host: "a", Zone: "a"})
	}
	if got := r.GatheredText(w); got != "hello: 3 of 3 instances on host a; b has room; `fairlead restart hello` spreads them" {
		t.Errorf("got %q", got)
	}
	full := w.Hosts["b"]
	full.Refuses = "its disk is full"
	w.Hosts["b"] = full
	if got := r.GatheredText(w); got != "" {
		t.Errorf("where no host has room: %q", got)
	}
}
