package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"
)

// leastCases of the crash points that two cores try in a minute.
const leastCases = 2000

// benchCrashpoints runs the harness as CI does and counts its cases.
func benchCrashpoints(ctx context.Context, b *bench) (*section, error) {
	const pkg = "./internal/control/crashpoints"
	// Compiling is no part of the figure.
	if _, err := output1(ctx, "..", "go", "test", "-count=1", "-run", "^$", pkg); err != nil {
		return nil, err
	}
	args := []string{"test", "-count=1", "-run", "^TestCrashpoints$", "-v", "-timeout", "30m"}
	if b.quick {
		args = append(args, pkg, "-pairs=none")
	} else {
		args = append(args, pkg)
	}
	began := time.Now()
	out, err := output1(ctx, "..", "go", args...)
	took := time.Since(began)
	if err != nil {
		return nil, err
	}
	cases, pairs := 0, 0
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		text, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "--- PASS: ")
		if !ok || strings.Count(text, "/") < 2 { // an operation, whose cases follow
			continue
		}
		cases++
		if strings.Count(text, "_=_") > 1 {
			pairs++
		}
	}
	rate := float64(cases) / took.Minutes()
	t := verdicts()
	t.judge("crash points, cases a minute", fmt.Sprintf("%.0f", rate), fmt.Sprintf("≥ %d on 2 cores", leastCases), rate >= leastCases)
	d := table{head: []string{"cases", "of which pairs", "took"}}
	d.add(fmt.Sprint(cases), fmt.Sprint(pairs), took.Round(time.Second).String())
	return &section{tables: []table{t, d}, notes: []string{"Without the race detector; one case in fifty is tried a second time over SQLite, and counts once."}}, nil
}
