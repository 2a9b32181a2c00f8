package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/bucket/dir"
)

func kept(t *testing.T) (*Keeper, *dir.Bucket) {
	t.Helper()
	b, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return NewKeeper(b, "i"), b
}

func name(h uint32) (Named, bool) { return Named{Handle: h, ID: "x", Service: "s"}, true }

// fill adds the sample's ticks again and again, flushing as it is told.
func fill(t *testing.T, k *Keeper, times int) (all []Tick) {
	t.Helper()
	number := int64(0)
	for range times {
		for _, tick := range sample().Ticks {
			number++
			tick.Number = number
			all = append(all, tick)
			if k.Add(tick, name) {
				if err := k.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return all
}

func TestWhatIsKeptIsReadBackInOrder(t *testing.T) {
	k, _ := kept(t)
	all := fill(t, k, 3)
	got, err := k.Load(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(all, got.Ticks); d != "" || got.Last != 90 || len(got.Names) != 3 {
		t.Errorf("last %d, %d names:\n%s", got.Last, len(got.Names), d)
	}
	if got, err = k.Load(t.Context(), 70); err != nil || len(got.Ticks) != 20 {
		t.Errorf("after 70: %d ticks, %v; want 20", len(got.Ticks), err)
	}
}

func TestADamagedSegmentIsPassedOverAndSaid(t *testing.T) {
	k, b := kept(t)
	fill(t, k, 3)
	torn := segmentName("evidence/i/", 31, 60)
	r, _, err := b.Open(t.Context(), torn)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	r.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), torn, bytes.NewReader(text[:len(text)/2]), false); err != nil {
		t.Fatal(err)
	}
	got, err := k.Load(t.Context(), 0)
	if !errors.Is(err, ErrSegment) || len(got.Ticks) != 60 || got.Last != 90 {
		t.Errorf("%d ticks, last %d, %v; want 60, 90 and what is wrong", len(got.Ticks), got.Last, err)
	}
}

// away is a bucket out of reach.
type away struct{ bucket.Bucket }

var errAway = errors.New("out of reach")

func (away) Put(context.Context, string, io.Reader, bool) (bucket.Info, error) {
	return bucket.Info{}, errAway
}

func TestABucketOutOfReachKeepsTenMinutesAndThenGivesUpTheOldest(t *testing.T) {
	k, b := kept(t)
	k.bucket = away{b}
	for n := range int64(maxPending + 50) {
		if k.Add(Tick{Number: n + 1, Rows: []TickRow{{Instance: 1}}}, name); n%100 == 99 {
			if err := k.Flush(t.Context()); !errors.Is(err, errAway) {
				t.Fatal(err)
			}
		}
	}
	if k.Dropped() != 50 {
		t.Errorf("%d dropped", k.Dropped())
	}
	k.bucket = b
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := k.Load(t.Context(), 0)
	if err != nil || len(got.Ticks) != maxPending || got.Ticks[0].Number != 51 || len(got.Names) != 1 {
		t.Errorf("%d ticks from %d, %d names, %v", len(got.Ticks), got.Ticks[0].Number, len(got.Names), err)
	}
}

// slow is a bucket in which something happens while a segment is written.
type slow struct {
	bucket.Bucket
	meanwhile func()
}

func (s slow) Put(ctx context.Context, name string, r io.Reader, once bool) (bucket.Info, error) {
	s.meanwhile()
	return s.Bucket.Put(ctx, name, r, once)
}

func TestATickThatIsSealedWhileASegmentIsWrittenKeepsItsNames(t *testing.T) {
	k, b := kept(t)
	k.bucket = slow{b, func() { k.Add(Tick{Number: 2, Rows: []TickRow{{Instance: 1}, {Instance: 2}}}, name) }}
	k.Add(Tick{Number: 1, Rows: []TickRow{{Instance: 1}}}, name)
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.bucket = b
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Load(t.Context(), 1); err != nil || len(got.Ticks) != 1 || len(got.Names) != 2 {
		t.Errorf("%d ticks, %d names, %v; want 1 and 2", len(got.Ticks), len(got.Names), err)
	}
}

func TestKeptEvidenceIsBoundedInAgeAndSize(t *testing.T) {
	k, b := kept(t)
	fill(t, k, 5)
	if err := k.Trim(t.Context(), 61, 1<<30); err != nil {
		t.Fatal(err)
	}
	list, err := b.List(t.Context(), "evidence/i/")
	if err != nil || len(list) != 3 {
		t.Fatalf("by age: %d segments are left, %v; want 3", len(list), err)
	}
	if err := k.Trim(t.Context(), 0, list[1].Size+list[2].Size); err != nil {
		t.Fatal(err)
	}
	if list, err = b.List(t.Context(), "evidence/i/"); err != nil || len(list) != 2 || list[0].Name != segmentName("evidence/i/", 91, 120) {
		t.Errorf("by size: %v, %v; want the two newest", list, err)
	}
}
