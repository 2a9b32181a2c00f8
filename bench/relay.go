package main

import "context"

// mostAtRelay is what a subscriber may take at a relay beside the transport's
// own, in bytes.
const mostAtRelay = 24 << 10

func benchRelay(ctx context.Context, b *bench) (*section, error) {
	t := table{head: []string{"figure", "measured", "target", "met"}}
	for _, row := range []struct {
		figure, unit string
		most         float64
	}{
		{"memory of a subscriber of ten services, beside the transport's", "B/subscriber", mostAtRelay},
		{"the transport's own, client's end included", "B/transport", 0},
	} {
		found, err := b.goBench(ctx, "./internal/relay", "^BenchmarkMemory$", row.unit, "1x")
		if err != nil {
			return nil, err
		}
		all, err := endingIn(found, "BenchmarkMemory")
		if err != nil {
			return nil, err
		}
		target, met := "", ""
		if row.most > 0 {
			if target, met = "≤ 24 KiB", "**no**"; median(all) <= row.most {
				met = "yes"
			}
		}
		t.add(row.figure, spread(scaled(all, 1.0/1024), "%.1f KiB"), target, met)
	}
	return &section{tables: []table{t}}, nil
}
