package control_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// fullStore is a store whose disk is full: only deletes and what is essential is recorded.
type fullStore struct {
	store.Store
	full *atomic.Bool
}

func (f fullStore) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	if f.full.Load() && !a.Essential && !a.OnlyDeletes() {
		return store.Result{}, store.ErrFull
	}
	return f.Store.Apply(ctx, a)
}

func TestOnAFullDiskADeletionIsRecordedAndWhatServesGoesOn(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var full atomic.Bool
		r.start(options{wrap: func(s store.Store) store.Store { return fullStore{s, &full} }})
		r.deploy("hello", "one")
		r.deploy("other", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.serves(10*time.Second, "other", "other-00001")
		full.Store(true)
		r.deploy("hello", "two")
		r.write("other", func(d *service.Desired) { d.Deleted = true })
		r.within(60*time.Second, "the deletion is done", func() bool {
			_, err := r.disk.Open().Get(t.Context(), store.Key{Kind: service.KindDesired, Name: "other"})
			return errors.Is(err, store.ErrNotFound)
		})
		if n := len(r.live("other-00001")); n != 0 {
			t.Errorf("%d instances of the deleted service live on", n)
		}
		if why := r.disagreement("hello"); why != "" {
			t.Errorf("what serves: %s", why)
		}
		full.Store(false)
		r.serves(60*time.Second, "hello", "hello-00002")
		if s := r.deploySaga("hello"); s.State != saga.Done {
			t.Errorf("the deploy ended as %s", s.State)
		}
	})
}
