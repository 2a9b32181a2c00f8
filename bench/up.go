package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Targets of starting, and of doing nothing.
const (
	mostToServing = 1500 * time.Millisecond
	mostIdleKiB   = 40 << 10
	idleFor       = 10 * time.Second
)

// benchUp starts the product from nothing, each time on a folder of its own.
// The first start reads the program from disk, and counts like the others.
func benchUp(ctx context.Context, b *bench) (*section, error) {
	if _, err := b.build(ctx, "..", "./cmd/fairlead"); err != nil {
		return nil, err
	}
	var took []float64
	for range b.runs {
		began := time.Now()
		p, err := b.up(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began))/float64(time.Millisecond))
		p.end()
	}
	s := verdicts()
	s.judge("from an empty folder until the gateway answers", spread(took, "%.0f ms"), "≤ "+ms(mostToServing), median(took) <= float64(mostToServing.Milliseconds()))
	if err := b.idle(ctx, &s); err != nil {
		return nil, err
	}
	info, err := os.Stat(b.dir + "/fairlead")
	if err != nil {
		return nil, err
	}
	return &section{tables: []table{s}, notes: []string{fmt.Sprintf(
		"Memory is RssAnon of the one process that holds all roles, %s after the last thing happened. The program has %.1f MiB.", idleFor, float64(info.Size())/(1<<20))}}, nil
}

// idle looks at the memory of one that has nothing to do: with nothing
// deployed, and with one service.
func (b *bench) idle(ctx context.Context, t *table) error {
	p, err := b.up(ctx)
	if err != nil {
		return err
	}
	defer p.end()
	if err := p.weigh(ctx, t, "anonymous memory, idle, nothing deployed"); err != nil {
		return err
	}
	program, err := b.backend(ctx)
	if err != nil {
		return err
	}
	if _, err := p.deploy(ctx, program, 1); err != nil {
		return err
	}
	return p.weigh(ctx, t, "anonymous memory, idle, one service deployed")
}

func (p *product) weigh(ctx context.Context, t *table, figure string) error {
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return ctx.Err()
	}
	kib, err := memory(p.pid(), "RssAnon")
	if err != nil {
		return err
	}
	t.judge(figure, fmt.Sprintf("%.1f MiB", float64(kib)/1024), fmt.Sprintf("≤ %d MiB", mostIdleKiB>>10), kib <= mostIdleKiB)
	return nil
}
