package control_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// refusing is a store that refuses writes of one record.
type refusing struct {
	store.Store
	key store.Key
	on  atomic.Bool
}

func (s *refusing) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	if s.on.Load() && slices.ContainsFunc(a.Writes, func(w store.Write) bool { return w.Key == s.key }) {
		return store.Result{}, errors.New("this record cannot be written")
	}
	return s.Store.Apply(ctx, a)
}

// said is a log that can be read while it is written.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *said) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.b.String(), text)
}

func TestTheFailureOfOneServiceIsReportedAtTheEndOfThePass(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		key := store.Key{Kind: service.KindRoutes, Name: "bad"}
		s, log, metrics := &refusing{key: key}, &said{}, prometheus.NewRegistry()
		r.start(options{
			wrap: func(under store.Store) store.Store { s.Store = under; return s },
			edit: func(c *control.Config) { c.Logger, c.Metrics = slog.New(slog.NewTextHandler(log, nil)), metrics },
		})
		r.deploy("bad", "one")
		r.deploy("good", "one")
		r.serves(10*time.Second, "bad", "bad-00001")
		r.serves(10*time.Second, "good", "good-00001")
		failing := func() float64 {
			families, err := metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == "fairlead_control_failing_services" {
					return f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			return -1
		}
		time.Sleep(5 * time.Second)
		if n := failing(); n != 0 {
			t.Errorf("%v services fail before anything does", n)
		}
		s.on.Store(true)
		doc, err := r.store.Get(r.t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		r.put(key, doc.Version, service.Routes{Service: "bad"})
		r.deploy("good", "two")
		r.serves(10*time.Second, "good", "good-00002")
		r.within(5*time.Second, "one service is counted as failing", func() bool { return failing() == 1 })
		if !log.has("a service could not be brought to what is wanted") || !log.has("service=bad error=\"repair-routes: ") {
			t.Error("the pass does not say which one and why")
		}
		s.on.Store(false)
		r.within(time.Minute, "none is any more", func() bool { return failing() == 0 && r.disagreement("bad") == "" })
	})
}
