package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// mostPass is what one pass over a thousand unchanged services may take.
const mostPass = 200 * time.Millisecond

// goBench runs benchmarks of one of our packages and returns, by name, each
// run's value in the unit.
func (b *bench) goBench(ctx context.Context, pkg, pattern, unit, benchtime string) (map[string][]float64, error) {
	out, err := output1(ctx, "..", "go", "test", "-run", "^$", "-bench", pattern,
		"-benchtime", benchtime, "-count", strconv.Itoa(b.runs), "-timeout", "9m", pkg)
	if err != nil {
		return nil, err
	}
	found := map[string][]float64{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		for i := 3; i < len(f); i += 2 {
			if f[i] == unit {
				v, err := strconv.ParseFloat(f[i-1], 64)
				if err != nil {
					return nil, fmt.Errorf("cannot read %q: %w", lines.Text(), err)
				}
				found[name(f[0])] = append(found[name(f[0])], v)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no benchmark %q that reports %s:\n%s", pkg, pattern, unit, tail(out))
	}
	return found, nil
}

// name of a benchmark without the number of processors.
func name(s string) string {
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		if _, err := strconv.Atoi(s[i+1:]); err == nil {
			return s[:i]
		}
	}
	return s
}

// endingIn finds the series of the benchmark whose name ends so.
func endingIn(found map[string][]float64, suffix string) ([]float64, error) {
	for n, v := range found {
		if strings.HasSuffix(n, suffix) {
			return v, nil
		}
	}
	return nil, fmt.Errorf("no benchmark whose name ends in %q", suffix)
}

func benchReconcile(ctx context.Context, b *bench) (*section, error) {
	found, err := b.goBench(ctx, "./internal/control", "Pass$", "ns/op", "10x")
	if err != nil {
		return nil, err
	}
	thousand, err := endingIn(found, "=1000")
	if err != nil {
		return nil, err
	}
	tenfold, err := endingIn(found, "=10000")
	if err != nil {
		return nil, err
	}
	t := verdicts()
	t.judge("one pass over 1,000 unchanged services", spread(scaled(thousand, 1e-6), "%.1f ms"), "≤ "+ms(mostPass), median(thousand) <= float64(mostPass))
	grown := table{head: []string{"growth", "measured"}}
	grown.add("one pass over 10,000", spread(scaled(tenfold, 1e-6), "%.1f ms"))
	grown.add("10,000 / 1,000 (10 is linear)", fmt.Sprintf("%.1f", median(tenfold)/median(thousand)))
	return &section{tables: []table{t, grown}}, nil
}

func benchCommits(ctx context.Context, b *bench) (*section, error) {
	found, err := b.goBench(ctx, "./internal/store/sqlite", "^BenchmarkCommits", "commits/s", "1s")
	if err != nil {
		return nil, err
	}
	single, err := endingIn(found, "Single")
	if err != nil {
		return nil, err
	}
	t := table{head: []string{"commits", "per second", "of single"}}
	t.add("one caller", spread(single, "%.0f"), "1.0")
	for _, callers := range []string{"8", "100"} {
		grouped, err := endingIn(found, "callers="+callers)
		if err != nil {
			return nil, err
		}
		t.add(callers+" callers at once, grouped", spread(grouped, "%.0f"), fmt.Sprintf("%.1f", median(grouped)/median(single)))
	}
	return &section{tables: []table{t}, notes: []string{"Each commit writes one document of 400 bytes to SQLite with `synchronous=FULL`, and is on disk when it is answered."}}, nil
}

func scaled(all []float64, by float64) []float64 {
	out := make([]float64, len(all))
	for i, v := range all {
		out[i] = v * by
	}
	return out
}
