package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/sqlite"
	"github.com/fairlead-platform/fairlead/view"
)

// BenchmarkDeployOverSQLite measures what a deploy takes beside its dwell: the
// controller and real commits; hosts and gateways answer at once.
func BenchmarkDeployOverSQLite(b *testing.B) {
	const dwell = 10 * time.Millisecond
	s, err := sqlite.Open(sqlite.Options{Path: filepath.Join(b.TempDir(), "store.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	gateways := gatewaytest.NewSim("g1")
	defer gateways.Close()
	var c *control.Control
	made := make(chan struct{})
	port := gateways.Attach(gatewaytest.PortConfig{Admit: func(ctx context.Context, g service.GatewayState) (view.Epoch, error) {
		<-made
		return c.AdmitGateway(ctx, g)
	}})
	defer port.Close()
	c = control.New(control.Config{
		Store: s, Hosts: hosttest.NewSim(service.Host{Name: "a", Zone: "z"}), Gateways: port, LockIsLease: true, Dwell: dwell,
	})
	close(made)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			b.Error(err)
		}
	}()
	defer func() { cancel(); <-done }()
	w, err := s.Watch(ctx, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for {
		commit, err := w.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if len(commit.Changes) > 0 && commit.Changes[0].Kind == service.KindGateway {
			break // the region is complete
		}
	}
	version, generation, commits := uint64(0), int32(0), 0
	for b.Loop() {
		generation++
		body, err := json.Marshal(service.Desired{Service: "hello", Generation: generation, Instances: 1, Template: service.Template{Command: []string{fmt.Sprint(generation)}}})
		if err != nil {
			b.Fatal(err)
		}
		res, err := s.Apply(ctx, store.Apply{ID: fmt.Sprint("d", generation), Writes: []store.Write{{Key: store.Key{Kind: service.KindDesired, Name: "hello"}, Expect: version, Body: body}}})
		if err != nil {
			b.Fatal(err)
		}
		version = res.Sequence
		commits += served(b, w, generation)
	}
	b.ReportMetric(float64(b.Elapsed()-time.Duration(b.N)*dwell)/float64(b.N)/1e6, "ms-beside-dwell/op")
	b.ReportMetric(float64(commits)/float64(b.N), "commits/op")
}

// served follows commits until the catalog has the generation, and counts them.
func served(b *testing.B, w store.Watcher, generation int32) (commits int) {
	for {
		c, err := w.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		commits++
		for _, ch := range c.Changes {
			var cat service.Catalog
			if ch.Kind == service.KindCatalog && json.Unmarshal(ch.Body, &cat) == nil && cat.ObservedGeneration >= generation {
				return commits
			}
		}
	}
}
