package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Of gives what is kept of one service's instances after the tick since: the
// segments that were written, and what waits to be. It holds one segment at a
// time. What cannot be read is passed over, and said in the error beside what
// could.
func (k *Keeper) Of(ctx context.Context, since int64, service string) (Kept, error) {
	out := Kept{Names: map[uint32]Named{}}
	waiting, names := k.waiting()
	list, err := k.bucket.List(ctx, k.prefix)
	if err != nil {
		err = fmt.Errorf("cannot list kept evidence: %w", err)
	}
	all := []error{err}
	for _, info := range list {
		_, last, ok := span(info.Name, k.prefix)
		if !ok || last <= since {
			continue
		}
		s, err := k.read(ctx, info.Name)
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if err != nil {
			all = append(all, err)
			continue
		}
		out.take(s.Ticks, s.Instances, since, service)
	}
	out.take(waiting, names, max(since, out.Last), service)
	return out, errors.Join(all...)
}

// waiting is what is sealed and not written yet.
func (k *Keeper) waiting() (ticks []Tick, names []Named) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.names {
		names = append(names, n)
	}
	return slices.Clone(k.pending), names
}

// take adds the service's rows of ticks after since. A tick without any is
// kept too: that nothing was said is evidence.
func (o *Kept) take(ticks []Tick, names []Named, since int64, service string) {
	mine := map[uint32]bool{} // :: handle → is one of the service's
	for _, n := range names {
		if n.Service == service {
			mine[n.Handle], o.Names[n.Handle] = true, n
		}
	}
	for _, t := range ticks {
		if t.Number <= since {
			continue
		}
		own := Tick{Number: t.Number}
		for _, r := range t.Rows {
			if mine[r.Instance] {
				own.Rows = append(own.Rows, r)
			}
		}
		o.Ticks, o.Last = append(o.Ticks, own), max(o.Last, t.Number)
	}
}
