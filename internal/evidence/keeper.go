package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/bucket"
)

// Keeper writes sealed ticks into a bucket, a segment at a time, and reads them
// back. A bucket out of reach costs evidence, after a while, and nothing else.
type Keeper struct {
	bucket bucket.Bucket
	prefix string

	mu      sync.Mutex
	pending []Tick
	names   map[uint32]Named // :: handle → what it means, of what is pending
	dropped uint64
	since   int // ticks that were added since it was time to flush
}

const (
	// FlushEvery is after how many ticks at most a segment is written.
	FlushEvery = 30
	// maxPending ticks wait for a bucket that is out of reach.
	maxPending = 600
)

// NewKeeper keeps the ticks of one incarnation of the store.
func NewKeeper(b bucket.Bucket, incarnation string) *Keeper {
	return &Keeper{bucket: b, prefix: "evidence/" + incarnation + "/", names: map[uint32]Named{}}
}

// Add takes a sealed tick. Named says what the handles in it mean. It reports
// whether it is time to flush.
func (k *Keeper) Add(t Tick, named func(handle uint32) (Named, bool)) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range t.Rows {
		if _, ok := k.names[r.Instance]; ok {
			continue
		}
		if n, ok := named(r.Instance); ok {
			k.names[r.Instance] = n
		}
	}
	k.pending = append(k.pending, t)
	if over := len(k.pending) - maxPending; over > 0 {
		k.pending, k.dropped = append([]Tick(nil), k.pending[over:]...), k.dropped+uint64(over)
	}
	if k.since++; k.since < FlushEvery {
		return false
	}
	k.since = 0 // also where the bucket is out of reach: once in so many ticks is often enough
	return true
}

// Dropped is how many ticks were given up because the bucket was out of reach.
func (k *Keeper) Dropped() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dropped
}

// Pending is how many sealed ticks are not in the bucket.
func (k *Keeper) Pending() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.pending)
}

// Flush writes what is pending as one segment. What could not be written stays
// pending.
func (k *Keeper) Flush(ctx context.Context) error {
	k.mu.Lock()
	s := Segment{Incarnation: strings.TrimSuffix(strings.TrimPrefix(k.prefix, "evidence/"), "/"), Ticks: k.pending}
	s.Instances = k.namedIn(s.Ticks)
	k.mu.Unlock()
	if len(s.Ticks) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		return err
	}
	name := segmentName(k.prefix, s.Ticks[0].Number, s.Ticks[len(s.Ticks)-1].Number)
	if _, err := k.bucket.Put(ctx, name, &b, false); err != nil {
		return fmt.Errorf("cannot keep evidence: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	last := s.Ticks[len(s.Ticks)-1].Number
	for len(k.pending) > 0 && k.pending[0].Number <= last {
		k.pending = k.pending[1:]
	}
	k.pending = append([]Tick(nil), k.pending...)
	left := k.namedIn(k.pending) // of ticks that were added meanwhile
	clear(k.names)
	for _, n := range left {
		k.names[n.Handle] = n
	}
	return nil
}

// namedIn is what the handles in the ticks mean. k.mu is held.
func (k *Keeper) namedIn(ticks []Tick) (out []Named) {
	seen := map[uint32]bool{}
	for _, t := range ticks {
		for _, r := range t.Rows {
			if n, ok := k.names[r.Instance]; ok && !seen[r.Instance] {
				seen[r.Instance], out = true, append(out, n)
			}
		}
	}
	return out
}

func segmentName(prefix string, first, last int64) string {
	return fmt.Sprintf("%s%020d-%020d", prefix, first, last)
}

// span reads a segment's name.
func span(name, prefix string) (first, last int64, ok bool) {
	a, b, found := strings.Cut(strings.TrimPrefix(name, prefix), "-")
	first, errA := strconv.ParseInt(a, 10, 64)
	last, errB := strconv.ParseInt(b, 10, 64)
	return first, last, found && errA == nil && errB == nil && first <= last
}

// Kept is what was read back.
type Kept struct {
	Ticks []Tick
	Names map[uint32]Named
	// Last is the number of the last tick that a name speaks of, read or not.
	Last int64
}

// Last is the number of the last tick that is kept; 0 is none.
func (k *Keeper) Last(ctx context.Context) (last int64, err error) {
	list, err := k.bucket.List(ctx, k.prefix)
	if err != nil {
		return 0, fmt.Errorf("cannot list kept evidence: %w", err)
	}
	for _, info := range list {
		if _, at, ok := span(info.Name, k.prefix); ok {
			last = max(last, at)
		}
	}
	return last, nil
}

// Load reads the segments that hold ticks after since. What cannot be read is
// passed over, and said in the error beside what could.
func (k *Keeper) Load(ctx context.Context, since int64) (Kept, error) {
	out := Kept{Names: map[uint32]Named{}}
	list, err := k.bucket.List(ctx, k.prefix)
	if err != nil {
		return out, fmt.Errorf("cannot list kept evidence: %w", err)
	}
	var all []error
	for _, info := range list {
		_, last, ok := span(info.Name, k.prefix)
		if !ok {
			continue
		}
		out.Last = max(out.Last, last)
		if last <= since {
			continue
		}
		s, err := k.read(ctx, info.Name)
		if err != nil {
			all = append(all, err)
			continue
		}
		for _, n := range s.Instances {
			out.Names[n.Handle] = n
		}
		for _, t := range s.Ticks {
			if t.Number > since {
				out.Ticks = append(out.Ticks, t)
			}
		}
	}
	return out, errors.Join(all...)
}

func (k *Keeper) read(ctx context.Context, name string) (*Segment, error) {
	r, _, err := k.bucket.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read kept evidence %s: %w", name, err)
	}
	defer r.Close()
	s, err := Decode(r)
	if err != nil {
		return nil, fmt.Errorf("cannot read kept evidence %s: %w", name, err)
	}
	return s, nil
}

// Trim deletes segments whose ticks are older than oldest, and then the oldest
// until no more than maxBytes are left.
func (k *Keeper) Trim(ctx context.Context, oldest, maxBytes int64) error {
	list, err := k.bucket.List(ctx, k.prefix)
	if err != nil {
		return fmt.Errorf("cannot list kept evidence: %w", err)
	}
	size := int64(0)
	for _, info := range list {
		size += info.Size
	}
	for _, info := range list { // by name, so the oldest first
		_, last, ok := span(info.Name, k.prefix)
		if !ok || last >= oldest && size <= maxBytes {
			continue
		}
		if err := k.bucket.Delete(ctx, info.Name); err != nil {
			return fmt.Errorf("cannot delete old evidence: %w", err)
		}
		size -= info.Size
	}
	return nil
}
