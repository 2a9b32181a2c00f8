package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// benchWrite writes a document of 400 bytes, one of a thousand.
func benchWrite(n int64) store.Apply {
	w := store.Write{Key: store.Key{Kind: "thing", Name: fmt.Sprint(n % 1000)}, Any: true, Body: fmt.Appendf(nil, `{"n":%d,"x":%q}`, n, strings.Repeat("x", 380))}
	return store.Apply{ID: fmt.Sprintf("bench-%012d", n), Writes: []store.Write{w}}
}

func BenchmarkCommitsSingle(b *testing.B) {
	s := mustOpen(b, fresh(b))
	n := int64(0)
	for b.Loop() {
		n++
		if _, err := s.Apply(b.Context(), benchWrite(n)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkCommitsGrouped has so many callers, each of whom waits for its own commit.
func BenchmarkCommitsGrouped(b *testing.B) {
	for _, callers := range []int{8, 100} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := mustOpen(b, fresh(b))
			var n atomic.Int64
			var all sync.WaitGroup
			b.ResetTimer()
			for range callers {
				all.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						if _, err := s.Apply(b.Context(), benchWrite(i)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
	}
}

// BenchmarkWakeUp is from an Apply in one store to its commit at a watcher of another.
func BenchmarkWakeUp(b *testing.B) {
	o := fresh(b)
	one, two := mustOpen(b, o), mustOpen(b, o)
	w, err := two.Watch(b.Context(), 0)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	n := int64(0)
	for b.Loop() {
		n++
		if _, err := one.Apply(b.Context(), benchWrite(n)); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Next(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// filled is a store with 10,000 documents of 400 bytes.
func filled(b *testing.B) *Store {
	s := mustOpen(b, fresh(b))
	for group := range 10 {
		a := store.Apply{ID: fmt.Sprint("fill-", group)}
		for i := range 1000 {
			w := benchWrite(int64(i)).Writes[0]
			w.Name = fmt.Sprintf("%d-%d", group, i)
			a.Writes = append(a.Writes, w)
		}
		if _, err := s.Apply(b.Context(), a); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func BenchmarkGet(b *testing.B) {
	s := filled(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := s.Get(context.Background(), store.Key{Kind: "thing", Name: fmt.Sprintf("%d-%d", i%10, i%1000)}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkListOfTenThousand(b *testing.B) {
	s := filled(b)
	for b.Loop() {
		if list, _, err := s.List(b.Context(), "thing"); err != nil || len(list) != 10_000 {
			b.Fatal(len(list), err)
		}
	}
}
