package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

func TestAChangeOfTheContractIsInTheHistoryWithWhatItChanged(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		ramp, half := int32(120), int32(4)
		for _, c := range []*fairleadv1.HealthContract{{Ramp: &ramp}, {Ramp: &ramp, HalfLife: &half}} {
			if _, err := w.services.SetContract(w.ctx, connect.NewRequest(&fairleadv1.SetContractRequest{Service: "hello", Contract: c})); err != nil {
				t.Fatal(err)
			}
		}
		refused := int32(1)
		if _, err := w.services.SetContract(w.ctx, connect.NewRequest(&fairleadv1.SetContractRequest{Service: "hello", Contract: &fairleadv1.HealthContract{Ramp: &refused}})); err == nil {
			t.Error("a dangerous contract is taken")
		}
		resp, err := w.services.ListTransitions(w.ctx, connect.NewRequest(&fairleadv1.ListTransitionsRequest{Service: "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range resp.Msg.GetPolicies() {
			got = append(got, fmt.Sprint(p.GetBy(), " ", p.GetWhat(), " ", p.GetChanges()))
		}
		if s := strings.Join(got, "\n"); s != "ann contract [ramp 60 → 120]\nann contract [halfLife 5 → 4]" {
			t.Errorf("the history is\n%s", s)
		}
	})
}

func TestHistoryHasWhatIsInTheStoreAndWhatIsSealed(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		var docs []discovery.Sealed
		at := time.Now().Add(-time.Hour)
		for i := range 10 {
			r := discovery.Record{
				Service: "hello", Instance: fmt.Sprint("i", i), At: at.Add(time.Duration(i) * time.Second), Tick: int64(i), To: eligibility.Eligible, Row: registry.Instance{Handle: uint32(i + 1)},
			}
			name := fmt.Sprintf("hello.%012d.%d", r.Tick, r.Row.Handle)
			w.put(service.KindTransition, name, r)
			if i < 7 {
				d, err := w.st.Get(w.ctx, store.Key{Kind: service.KindTransition, Name: name})
				if err != nil {
					t.Fatal(err)
				}
				docs = append(docs, discovery.Sealed{Kind: d.Kind, Name: d.Name, At: r.At, Body: d.Body})
				w.erase(service.KindTransition, name)
			}
		}
		if err := discovery.NewArchive(w.bucket).Seal(context.Background(), "hello", docs, time.Now()); err != nil {
			t.Fatal(err)
		}
		list := func(limit int32, instance string) (names string, missing string) {
			resp, err := w.services.ListTransitions(w.ctx, connect.NewRequest(&fairleadv1.ListTransitionsRequest{Service: "hello", Instance: instance, Limit: limit}))
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range resp.Msg.GetTransitions() {
				names += x.GetInstance()
			}
			return names, resp.Msg.GetMissing()
		}
		for _, c := range []struct {
			limit    int32
			instance string
			want     string
		}{{0, "", "i0i1i2i3i4i5i6i7i8i9"}, {2, "", "i8i9"}, {5, "", "i5i6i7i8i9"}, {1, "i3", "i3"}} {
			if got, missing := list(c.limit, c.instance); got != c.want || missing != "" {
				t.Errorf("limit %d, instance %q: %s %s", c.limit, c.instance, got, missing)
			}
		}
		w.bucket.mu.Lock()
		for name := range w.bucket.held {
			w.bucket.held[name] = blob{body: []byte("damaged")}
		}
		w.bucket.mu.Unlock()
		if got, missing := list(0, ""); got != "i7i8i9" || !strings.Contains(missing, "cannot read sealed history") {
			t.Errorf("with a damaged part: %s %s", got, missing)
		}
		if got, missing := list(2, ""); got != "i8i9" || missing != "" {
			t.Errorf("what is not needed is not missed: %s %s", got, missing)
		}
	})
}
