package service

import (
	"errors"
	"testing"
)

// twoHosts is a world of hosts a and b that are heard and run nothing.
func twoHosts() *World {
	w := &World{Hosts: map[string]HostState{}, Draining: map[string]bool{}}
	for _, name := range []string{"a", "b"} {
		w.Hosts[name] = HostState{Host: Host{Name: name, Zone: name}, Connected: true, Reported: true}
	}
	return w
}

func TestASlotThatLeavesAHostIsNotMissedThere(t *testing.T) {
	w := twoHosts()
	r := Revision{Name: "hello-00001", Slots: []Slot{{ID: "hello-00001.0", Host: "a", Zone: "a"}, {ID: "hello-00001.1", Host: "b", Zone: "b"}}}
	if n := len(r.Lost(w)); n != 2 {
		t.Fatalf("%d of 2 slots without a process are missed", n)
	}
	w.Draining["b"] = true
	if lost := r.Lost(w); len(lost) != 1 || lost[0].Host != "a" {
		t.Errorf("missed are %+v", lost)
	}
	w.Draining["a"] = true // nobody else can take them: they are to run where they are
	if n := len(r.Lost(w)); n != 2 {
		t.Errorf("%d are missed where nothing else takes them", n)
	}
	if err := w.Room(); !errors.Is(err, ErrNoRoom) {
		t.Errorf("there is room: %v", err)
	}
}
