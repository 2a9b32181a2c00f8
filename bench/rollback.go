package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Targets of a rollback to a revision that is kept warm.
const (
	mostRollback     = 50 * time.Millisecond
	mostRollbackSync = 10 // times the p99 of an fsync
)

// benchRollback goes back and forth between two revisions that both run, by
// the API, and takes the time from the call to the end of the change: the last
// gateway has acknowledged by then, and it is recorded.
func benchRollback(ctx context.Context, b *bench) (*section, error) {
	f, err := b.fleet(ctx)
	if err != nil {
		return nil, err
	}
	defer f.end()
	n := 200
	if b.quick {
		n = 40
	}
	disk, err := newSyncer(f.data)
	if err != nil {
		return nil, err
	}
	defer disk.close()
	var took []time.Duration
	for i := range n {
		if err := disk.sample(5); err != nil {
			return nil, err
		}
		d, err := f.rollback(ctx, fmt.Sprintf("bench-%05d", 1+i%2))
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	t := verdicts()
	sync := percentile(disk.took, 0.99)
	most := mostRollbackSync * sync
	t.judge(fmt.Sprintf("a rollback to a warm revision, two gateways, median of %d", n), millis(percentile(took, 0.5)), "≤ "+ms(mostRollback), percentile(took, 0.5) <= mostRollback)
	t.judge("the same, p99", millis(percentile(took, 0.99)), "≤ "+millis(most)+", ten times an fsync's", percentile(took, 0.99) <= most)
	d := table{head: []string{"fsync of 4 KiB in between, same disk", "of", "median", "p99"}}
	d.add("", fmt.Sprint(len(disk.took)), millis(percentile(disk.took, 0.5)), millis(sync))
	return &section{tables: []table{t, d}, notes: []string{
		"From the call of the API to the end of the change: both gateways have acknowledged, and it is recorded. Each process is one of its own; the store is the embedded one.",
	}}, nil
}

// rollback to a revision, which has to be warm.
func (f *fleet) rollback(ctx context.Context, to string) (time.Duration, error) {
	type request struct {
		Service string `json:"service"`
		To      string `json:"to"`
		By      string `json:"by"`
	}
	var done struct {
		Generation int
		Warm       bool
	}
	began := time.Now()
	if err := f.call(ctx, "RollbackService", request{"bench", to, "bench"}, &done); err != nil {
		return 0, err
	}
	if err := f.awaitEnd(ctx, done.Generation); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if !done.Warm {
		return 0, fmt.Errorf("%s was not warm", to)
	}
	return took, nil
}

// awaitEnd watches a generation to its end, which has to be a good one.
func (f *fleet) awaitEnd(ctx context.Context, generation int) error {
	body, err := f.watch(ctx, generation)
	if err != nil {
		return err
	}
	defer body.Close()
	for {
		m, err := nextMessage(body)
		if err != nil {
			return fmt.Errorf("cannot watch the deployment: %w", err)
		}
		if m.Ended != nil {
			if m.Ended.Outcome != "" && m.Ended.Outcome != "done" {
				return errors.New("the change ended: " + m.Ended.Outcome)
			}
			return nil
		}
	}
}

// syncer measures what the disk takes for the smallest thing that is durable.
type syncer struct {
	file *os.File
	took []time.Duration
}

func newSyncer(folder string) (*syncer, error) {
	file, err := os.Create(filepath.Join(folder, "fsync"))
	return &syncer{file: file}, err
}

func (s *syncer) sample(n int) error {
	block := make([]byte, 4<<10)
	for range n {
		began := time.Now()
		if _, err := s.file.Write(block); err != nil {
			return err
		}
		if err := s.file.Sync(); err != nil {
			return err
		}
		s.took = append(s.took, time.Since(began))
	}
	return nil
}

func (s *syncer) close() { s.file.Close() } // of no use to anyone any more

// percentile of what was measured, p from 0 to 1.
func percentile(all []time.Duration, p float64) time.Duration {
	s := slices.Sorted(slices.Values(all))
	return s[int(p*float64(len(s)-1))]
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
