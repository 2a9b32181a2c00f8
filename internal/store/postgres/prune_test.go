package postgres

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// clock is moved by hand.
type clock struct{ milliseconds atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.advance(60 * 365 * 24 * time.Hour)
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.milliseconds.Load()) }
func (c *clock) advance(d time.Duration) { c.milliseconds.Add(d.Milliseconds()) }

func TestTheLogIsBoundedInRowsAndIdentitiesStay(t *testing.T) {
	o := fresh(t)
	clock := newClock()
	o.LogRows, o.Now = 50, clock.now
	s := mustOpen(t, o)
	first := isDone(t, applying(within(t), s, writing("a000")))
	for i := 1; i < 200; i++ {
		isDone(t, applying(within(t), s, writing(fmt.Sprintf("a%03d", i))))
	}
	conn := raw(t, o.URL)
	counted := func() int { return count(t, conn, "SELECT count(*) FROM "+o.Schema+".changes") }
	if n := counted(); n != 200 {
		t.Fatalf("%d changes before anything is due", n)
	}
	clock.advance(2 * time.Minute) // not past the retention
	last := isDone(t, applying(within(t), s, writing("last")))
	next := isDone(t, applying(within(t), s, writing("next"))) // comes after the first portion of what the one before made due
	eventually(t, "the log has its bound, and one more that came after a portion, and its head says how many", func() bool {
		return count(t, conn, `SELECT count(*) FROM `+o.Schema+`.changes c, `+o.Schema+`.head h WHERE h.log_rows IN (50, 51)
			AND h.log_rows = (SELECT count(*) FROM `+o.Schema+`.changes)`) > 0
	})
	if _, err := s.Watch(within(t), first.Sequence); !errors.Is(err, store.ErrTooOld) {
		t.Fatalf("got %v, want too old", err)
	}
	w := watching(t, mustOpen(t, o), last.Sequence-1)
	if one, two := nextID(t, w), nextID(t, w); one != "last" || two != "next" || next.Sequence <= last.Sequence {
		t.Fatalf("got %s, %s", one, two)
	}
	if r := isDone(t, applying(within(t), s, writing("a000"))); !r.Repeated || r.Sequence != first.Sequence {
		t.Fatalf("got %+v", r)
	}
}

func TestWhatIsPastItsRetentionIsForgottenInPortionsByWhoeverWrites(t *testing.T) {
	o := fresh(t)
	clock := newClock()
	o.Now = clock.now
	writer := mustOpen(t, o)
	isDone(t, applying(within(t), writer, writing("old")))
	conn := raw(t, o.URL)
	// Two and a half portions more, of a time when nobody pruned.
	rawExec(t, conn, `INSERT INTO `+o.Schema+`.commits SELECT n, 'old-' || n, '', $1 FROM generate_series(100, 100 + $2::integer) n`, clock.now(), pruneLimit*5/2)
	rawExec(t, conn, `SELECT setval('`+o.Schema+`.numbers', 100000)`)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour + 2*time.Minute)
	other := mustOpen(t, o)
	isDone(t, applying(within(t), other, writing("new")))
	eventually(t, "all that is old is forgotten", func() bool { return count(t, conn, "SELECT count(*) FROM "+o.Schema+".commits") == 1 })
	if n := count(t, conn, "SELECT count(*) FROM "+o.Schema+".documents"); n != 2 {
		t.Fatalf("%d documents", n)
	}
	if r := isDone(t, applying(within(t), other, store.Apply{ID: "old", Writes: writing("again").Writes})); r.Repeated {
		t.Fatal("an identity past its retention is remembered")
	}
}

func TestAWatcherFarBehindReadsTheServerInPortions(t *testing.T) {
	o := fresh(t)
	s := mustOpen(t, o)
	const n = 3 * readCommits
	for i := range n {
		isDone(t, applying(within(t), s, writing(fmt.Sprintf("a%03d", i))))
	}
	w := watching(t, mustOpen(t, o), 0) // its tail begins after them
	for i := range n {
		if id := nextID(t, w); id != fmt.Sprintf("a%03d", i) {
			t.Fatalf("got %s, want the one of %d", id, i)
		}
	}
}
