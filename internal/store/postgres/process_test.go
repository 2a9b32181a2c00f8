package postgres

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store/storetest"
)

// Eight writers in two processes, of which one is killed again and again.
func TestWritersInTwoProcessesOfWhichOneIsKilledLoseAndDoubleNothing(t *testing.T) {
	o := fresh(t)
	var last atomic.Uint64
	var following sync.WaitGroup
	followers := make([]*follower, 3)
	stores := make([]*Store, len(followers))
	for i := range followers {
		followers[i] = &follower{fold: storetest.NewFold(), seen: map[string]uint64{}}
		stores[i] = mustOpen(t, o)
		following.Go(func() {
			if err := followers[i].follow(within(t), stores[i], last.Load); err != nil {
				t.Errorf("watcher: %v", err)
			}
		})
	}
	steady := startChild(t, "write", "steady", o)
	told := make(chan map[string]uint64)
	go func() { told <- steady.acknowledged() }()
	acknowledged := killed(t, o)
	if err := steady.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	maps.Copy(acknowledged, <-told)
	if err := steady.Wait(); err != nil {
		t.Fatal(err)
	}
	list, sequence, err := stores[0].List(within(t), "")
	if err != nil {
		t.Fatal(err)
	}
	last.Store(sequence)
	// Ends the watchers that wait.
	isDone(t, applying(within(t), stores[0], writing("wake")))
	following.Wait()
	for _, f := range followers {
		delete(f.fold.Documents, writing("wake").Writes[0].Key)
		sameDocuments(t, f.fold.Documents, list)
		for id, sequence := range acknowledged {
			if f.seen[id] != sequence {
				t.Errorf("%s was acknowledged at %d and seen at %d", id, sequence, f.seen[id])
			}
		}
	}
	t.Logf("%d acknowledged, %d seen", len(acknowledged), len(followers[0].seen))
}

// killed runs children that are killed at random moments, and returns what
// they were told is done.
func killed(t *testing.T, o Options) map[string]uint64 {
	all := map[string]uint64{} // :: Apply ID → sequence
	for i := range 8 {
		c := startChild(t, "write", fmt.Sprint("killed", i), o)
		for range 1 + rand.IntN(60) { // it has begun, and got somewhere
			if !c.lines.Scan() {
				t.Fatalf("the child ended: %v", c.Wait())
			}
			var id string
			var sequence uint64
			if _, err := fmt.Sscanf(c.lines.Text(), "ack %s %d", &id, &sequence); err != nil {
				t.Fatal(err)
			}
			all[id] = sequence
		}
		time.Sleep(rand.N(5 * time.Millisecond)) // not always just after an answer
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, c.acknowledged())
		if c.Wait() == nil {
			t.Fatal("the child ended by itself")
		}
	}
	return all
}

func TestTwoProcessesThatContendForOneDocumentNeverBothWin(t *testing.T) {
	o := fresh(t)
	one, two := startChild(t, "lead", "one", o), startChild(t, "lead", "two", o)
	told := make(chan map[string]uint64)
	go func() { told <- one.acknowledged() }()
	won := two.acknowledged()
	maps.Copy(won, <-told)
	for _, c := range []*child{one, two} {
		if err := c.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	sequences := map[uint64]bool{}
	for _, sequence := range won {
		sequences[sequence] = true
	}
	list, _, err := mustOpen(t, o).List(within(t), "lease")
	if err != nil || len(list) != 1 || string(list[0].Body) != "200" || len(sequences) != 200 {
		t.Fatalf("200 additions at %d sequences made %v: %v", len(sequences), list, err)
	}
}
