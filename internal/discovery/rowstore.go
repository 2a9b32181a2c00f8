package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// rowWrite is what is to become of an instance's row in the store.
type rowWrite struct {
	row    registry.Instance
	erased bool
}

// write may be repeated: it says the same each time.
func (w rowWrite) write(id string) store.Write {
	key := store.Key{Kind: service.KindInstance, Name: id}
	if w.erased {
		return erase(key)
	}
	b, err := json.Marshal(w.row)
	if err != nil { // it holds nothing that JSON cannot say
		panic("discovery: cannot encode a row: " + err.Error())
	}
	return store.Write{Key: key, Any: true, Body: b}
}

// lasting is the row without what its authority says anew at each listing.
func lasting(x registry.Instance) registry.Instance {
	x.Listening, x.Missing = false, 0
	return x
}

// stage has a row written with the next transitions, if it is not on disk as it
// is.
func (r *records) stage(x registry.Instance) {
	x = lasting(x)
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, known := r.known[x.ID]; known && was == x {
		return
	}
	r.known[x.ID], r.rows[x.ID], r.staged = x, rowWrite{row: x}, true
}

// unstage has a row erased with the next transitions.
func (r *records) unstage(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, id)
	r.rows[id], r.staged = rowWrite{erased: true}, true
}

// readRows reads the rows that the store has, by handle. One that cannot be
// read is passed over: its authority will name the instance again.
func (t *term) readRows(ctx context.Context) (rows map[string]registry.Instance, ok bool) {
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindInstance)
	if err != nil {
		t.log.Warn("cannot read the registry's rows", "error", err)
		return nil, false
	}
	rows = make(map[string]registry.Instance, len(docs)) // :: instance → its row
	for _, d := range docs {
		var x registry.Instance
		if err := json.Unmarshal(d.Body, &x); err != nil || x.ID != d.Name || x.Handle == 0 {
			t.log.Warn("a row of the registry cannot be read and is passed over", "record", d.Key, "error", err)
			continue
		}
		rows[x.ID], t.records.known[x.ID] = x, x
	}
	return rows, true
}

// Handles are taken from the store in blocks, so that none is used again, also
// where what it was given to has left no trace.
const handleBlock = 1 << 12

// handlesKey is where the first handle stands that was never given away.
var handlesKey = store.Key{Kind: service.KindHandles, Name: "instances"}

// handles is what the record says.
type handles struct {
	Next uint32 `json:"next"`
}

// reserve takes a block of handles, and gives the first of them. False says
// that the store did not answer.
func (t *term) reserve(ctx context.Context) (first uint32, ok bool) {
	h := handles{Next: 1}
	d, err := t.p.cfg.Store.Get(ctx, handlesKey)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		t.log.Warn("cannot read which handles were given away", "error", err)
		return 0, false
	default:
		if err := json.Unmarshal(d.Body, &h); err != nil { // what else is seen of them counts
			t.log.Warn("which handles were given away cannot be read", "error", err)
		}
	}
	first = max(h.Next, 1)
	if err := t.commitHandles(ctx, first+handleBlock); err != nil {
		t.log.Warn("cannot reserve handles", "error", err)
		return 0, false
	}
	return first, true
}

func (t *term) commitHandles(ctx context.Context, next uint32) error {
	b, err := json.Marshal(handles{next})
	if err != nil {
		return fmt.Errorf("cannot encode the handles that were given away: %w", err)
	}
	if err := t.lead.Commit(ctx, []store.Write{{Key: handlesKey, Any: true, Body: b}}); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved = next
	return nil
}

// reserveMore takes another block before the one in use is spent.
func (t *term) reserveMore(ctx context.Context) {
	t.mu.Lock()
	next, reserved := t.reg.Next(), t.reserved
	t.mu.Unlock()
	if next+handleBlock/2 < reserved {
		return
	}
	if err := t.commitHandles(ctx, next+handleBlock); err != nil {
		t.log.Warn("cannot reserve more handles yet", "error", err)
	}
}

// sorted are rows by handle.
func sorted(rows []registry.Instance) []registry.Instance {
	slices.SortFunc(rows, func(a, b registry.Instance) int { return cmp.Compare(a.Handle, b.Handle) })
	return rows
}
