package main

import (
	"context"
	"fmt"
)

// What the discovery plane promises of a region of 60,000 instances.
const (
	leastRows    = 1.2e6 // rows a second into ticks, on one core
	mostChanged  = 10e6  // ns of a pass in which one in a hundred changed
	mostAll      = 250e6 // ns of a pass in which everything changed
	mostFailure  = 5e6   // ns from one instance's failure to its view
	mostRebuild  = 10e9  // ns of a leader's start
	mostMemory   = 1024  // bytes of the evaluator for each instance
	promisedSize = "=60000"
)

var estateSizes = []string{"=10000", promisedSize, "=240000"}

// estateRow is one promise and the benchmark that measures it.
type estateRow struct {
	figure, pkg, pattern, unit, times string
	scale                             float64
	format, target                    string
	met                               func(float64) bool
}

func estateRows() []estateRow {
	atMost := func(most float64) func(float64) bool { return func(v float64) bool { return v <= most } }
	return []estateRow{
		{"outcomes into ticks, million rows a second", "./internal/evidence", "^BenchmarkOutcomes$", "rows/s", "1s", 1e-6, "%.2f", "≥ 1.2", func(v float64) bool { return v >= leastRows }},
		{"allocations for each batch of 20 rows", "./internal/evidence", "^BenchmarkOutcomes$", "allocs/op", "1s", 1, "%.0f", "0", atMost(0)},
		{"a pass in which one in a hundred changed", "./internal/evaluate", "^BenchmarkPassOneInAHundred$", "ns/op", "50x", 1e-6, "%.1f ms", "≤ 10 ms", atMost(mostChanged)},
		{"a pass in which everything changed", "./internal/evaluate", "^BenchmarkPassEverything$", "ns/op", "10x", 1e-6, "%.0f ms", "≤ 250 ms", atMost(mostAll)},
		{"one failure to its view", "./internal/evaluate", "^BenchmarkOneFails$", "ns/op", "100x", 1e-6, "%.2f ms", "≤ 5 ms", atMost(mostFailure)},
		{"rebuild from ten minutes of segments", "./internal/evaluate", "^BenchmarkRebuild$", "ns/op", "1x", 1e-9, "%.1f s", "≤ 10 s", atMost(mostRebuild)},
		{"memory of the evaluator for each instance", "./internal/evaluate", "^BenchmarkMemory$", "B/instance", "1x", 1, "%.0f B", "≤ 1 KiB", atMost(mostMemory)},
	}
}

func benchEstate(ctx context.Context, b *bench) (*section, error) {
	t := table{head: []string{"figure", "10,000", "60,000", "240,000", "target at 60,000", "met"}}
	for _, row := range estateRows() {
		found, err := b.goBench(ctx, row.pkg, row.pattern, row.unit, row.times)
		if err != nil {
			return nil, err
		}
		cells, met := []string{row.figure}, "**no**"
		for _, size := range estateSizes {
			all, err := endingIn(found, size)
			if err != nil {
				return nil, err
			}
			cells = append(cells, spread(scaled(all, row.scale), row.format))
			if size == promisedSize && row.met(median(all)) {
				met = "yes"
			}
		}
		t.add(append(cells, row.target, met)...)
	}
	return &section{tables: []table{t}, notes: []string{fmt.Sprintf(
		"Instances of 450 services in three zones, 2%% of the services with a twentieth of the instances each; as many reporters as instances, each calling twenty of them a second. %s.",
		"A pass is the fold of a tick and the views of every service that it touched; in a rebuild each instance has a row for every ten seconds")}}, nil
}
