package resolver

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fairlead-platform/fairlead/view"
)

// BenchmarkPick is one pick and its end, at 3,000 endpoints in three zones and
// with 8 goroutines; p99 is that of single picks, the clock included.
func BenchmarkPick(b *testing.B) {
	r := newRig("z1", many(3000)...)
	b.SetParallelism(max(1, 8/runtime.GOMAXPROCS(0)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, err := r.Pick("a")
			if err != nil {
				b.Error(err)
				return
			}
			p.Done(Good)
		}
	})
}

// BenchmarkPickTail is the longest of a hundred picks, each with the time that
// it takes to look at the clock.
func BenchmarkPickTail(b *testing.B) {
	r := newRig("z1", many(3000)...)
	took := make([]time.Duration, 0, b.N)
	for range b.N {
		began := time.Now()
		p, err := r.Pick("a")
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		p.Done(Good)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
}

// BenchmarkColdStart opens a resolver with the views of a region on disk: 450
// services with 60,000 instances in all.
func BenchmarkColdStart(b *testing.B) {
	dir := b.TempDir()
	cfg := Config{
		StateDir: dir, Plane: []string{"127.0.0.1:1"}, Name: "bench", FirstView: -1,
		Dial: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	}
	for i := range 450 {
		cfg.Services = append(cfg.Services, fmt.Sprintf("service-%03d", i))
	}
	fillDisk(b, dir, cfg.Services, 60_000/450)
	for b.Loop() {
		r, err := Open(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		if p, err := r.Pick("service-449"); err != nil {
			b.Fatal(err)
		} else {
			p.Done(Good)
		}
		b.StopTimer()
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// fillDisk leaves views as a resolver keeps them.
func fillDisk(t testing.TB, dir string, services []string, endpoints int) {
	t.Helper()
	h, err := OpenViews(ViewsConfig{Name: "bench", Folder: filepath.Join(dir, "fairlead", "views"), Controls: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	h.Add(services...)
	e := view.Epoch{Incarnation: "01JDXH3W8PZ6QK2M4N5R7S9TVW", Number: 1, Nonce: "n"}
	for i, service := range services {
		v := view.Service{Name: service, Epoch: e, Version: view.Version{Incarnation: e.Incarnation, Epoch: 1, Counter: uint64(i + 1)}}
		for k := range endpoints {
			v.Endpoints = append(v.Endpoints, view.Endpoint{
				ID: fmt.Sprintf("01JDXH3W8PZ6QK2M4N5R7S%04d", k), Revision: service + "-00012", Address: fmt.Sprintf("10.%d.%d.%d:20080", i%250, k/250, k%250),
				Zone: fmt.Sprintf("zone-%d", k%3), Weight: 1000, Verdict: view.Eligible,
			})
		}
		if err := h.take(v.ChangeFrom(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.keep(); err != nil {
		t.Fatal(err)
	}
	h.lock.release()
	if files, err := os.ReadDir(h.cfg.Folder); err != nil || len(files) < len(services) {
		t.Fatalf("%d files are on disk: %v", len(files), err)
	}
}
