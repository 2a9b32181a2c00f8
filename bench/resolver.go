package main

import "context"

// What package resolver promises its host's process.
const (
	mostPick     = 100  // ns
	mostPickTail = 1000 // ns, 99 of 100
	mostCold     = 50e6 // ns
)

const resolverPackage = "./resolver"

func benchPick(ctx context.Context, b *bench) (*section, error) {
	t := verdicts()
	for _, row := range []struct {
		figure, pattern, unit, format, target string
		most                                  float64
	}{
		{"a pick and its end, 8 goroutines", "^BenchmarkPick$", "ns/op", "%.0f ns", "≤ 100 ns", mostPick},
		{"allocations of it", "^BenchmarkPick$", "allocs/op", "%.0f", "0", 0},
		{"a pick, 99 of 100", "^BenchmarkPickTail$", "p99-ns", "%.0f ns", "≤ 1 µs", mostPickTail},
	} {
		found, err := b.goBench(ctx, resolverPackage, row.pattern, row.unit, "2s")
		if err != nil {
			return nil, err
		}
		all, err := endingIn(found, "")
		if err != nil {
			return nil, err
		}
		t.judge(row.figure, spread(all, row.format), row.target, median(all) <= row.most)
	}
	return &section{tables: []table{t}, notes: []string{
		"One service of 3,000 endpoints in three zones, of which the caller is in one; the tail is of one goroutine, and looking at the clock is in it.",
	}}, nil
}

func benchColdStart(ctx context.Context, b *bench) (*section, error) {
	found, err := b.goBench(ctx, resolverPackage, "^BenchmarkColdStart$", "ns/op", "10x")
	if err != nil {
		return nil, err
	}
	all, err := endingIn(found, "")
	if err != nil {
		return nil, err
	}
	t := verdicts()
	t.judge("from Open to the first pick", spread(scaled(all, 1e-6), "%.0f ms"), "≤ 50 ms", median(all) <= mostCold)
	return &section{tables: []table{t}, notes: []string{
		"450 views with 60,000 endpoints in all, on a disk that the kernel has in memory, and no plane that answers.",
	}}, nil
}
