package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Readiness asks for a process to be live so long; it is no part of the figure.
const (
	readyFor   = 3 * time.Second
	mostBeside = 300 * time.Millisecond
	deploys    = 11
)

// benchDeploy deploys one revision after the other and takes the time of the
// command from its start to its end, as a person at a terminal would.
func benchDeploy(ctx context.Context, b *bench) (*section, error) {
	program, err := b.backend(ctx)
	if err != nil {
		return nil, err
	}
	p, err := b.up(ctx)
	if err != nil {
		return nil, err
	}
	defer p.end()
	var beside []float64
	took := steps{}
	for n := range deploys {
		began := time.Now()
		if _, err := p.deploy(ctx, program, n); err != nil {
			return nil, err
		}
		beside = append(beside, float64(time.Since(began)-readyFor)/float64(time.Millisecond))
		if err := took.read(ctx, p, n+1); err != nil {
			return nil, err
		}
	}
	t := verdicts()
	t.judge("a deploy beyond the 3 s of readiness, median of 11", fmt.Sprintf("%.0f ms", median(beside)), "≤ "+ms(mostBeside), median(beside) <= float64(mostBeside.Milliseconds()))
	t.judge("the longest of them", fmt.Sprintf("%.0f ms", slices.Max(beside)), "≤ "+ms(mostBeside), slices.Max(beside) <= float64(mostBeside.Milliseconds()))
	return &section{tables: []table{t, took.table()}, notes: []string{
		"From the start of the command to its end. The first stores the program (2 MB) and makes the service; the others make a revision.",
	}}, nil
}
