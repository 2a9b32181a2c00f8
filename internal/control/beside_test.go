package control_test

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/store"
)

func TestWhatRunsBesideTheWorkersWritesOnlyWhileItsControlLeads(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		leads := make(chan control.Lead, 2)
		edit := func(c *control.Config) {
			c.Beside = func(ctx context.Context, l control.Lead) {
				leads <- l
				<-ctx.Done()
			}
		}
		first := r.start(options{standby: true, edit: edit})
		l := <-leads
		write := func(body string) error {
			return l.Commit(t.Context(), []store.Write{{Key: store.Key{Kind: "transition", Name: "x"}, Any: true, Body: []byte(body)}})
		}
		if err := write("1"); err != nil || l.Epoch() != first.Epoch() || l.Epoch().Zero() {
			t.Fatalf("a leader cannot write: %v", err)
		}
		first.stop()
		r.start(options{standby: true, edit: edit})
		second := <-leads
		if err := write("2"); err == nil {
			t.Error("who does not lead any more has written")
		}
		d, err := r.store.Get(t.Context(), store.Key{Kind: "transition", Name: "x"})
		if err != nil || string(d.Body) != "1" || second.Epoch().Number <= l.Epoch().Number {
			t.Errorf("the record is %s, %v", d.Body, err)
		}
		time.Sleep(time.Second)
	})
}
