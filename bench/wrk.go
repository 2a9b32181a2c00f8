package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// load is what wrk found in one sample.
type load struct {
	requests int64
	rate     float64       // per second
	p50, p99 time.Duration // of a request
	errors   int64         // of sockets, and answers that are not 2xx or 3xx
	cpu      int64         // ticks that wrk itself used
}

// summary makes wrk print its figures for a program to read; it has no part in
// the requests, which are made once.
const summary = `
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("\nfigures %d %d %d %d %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
`

// wrk loads an address for one sample.
func (b *bench) wrk(ctx context.Context, address, host string, connections int, d time.Duration) (load, error) {
	script := filepath.Join(b.dir, "summary.lua")
	if err := os.WriteFile(script, []byte(summary), 0o644); err != nil {
		return load{}, err
	}
	cmd := exec.CommandContext(ctx, "wrk", "-t", fmt.Sprint(min(2, connections)), "-c", fmt.Sprint(connections),
		"-d", fmt.Sprintf("%ds", max(1, int(d.Seconds()))), "-s", script, "-H", "Host: "+host, "http://"+address+"/")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("cannot run wrk: %w\n%s", err, out)
	}
	var l load
	var took, p50, p99 int64
	_, figures, ok := strings.Cut(string(out), "\nfigures ")
	if !ok {
		return load{}, fmt.Errorf("cannot read what wrk said:\n%s", out)
	}
	if _, err := fmt.Sscan(figures, &l.requests, &took, &p50, &p99, &l.errors); err != nil {
		return load{}, fmt.Errorf("cannot read what wrk said: %w\n%s", err, out)
	}
	if l.requests == 0 {
		return load{}, fmt.Errorf("nothing was answered:\n%s", out)
	}
	l.rate = float64(l.requests) / (float64(took) / 1e6)
	l.p50, l.p99 = time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	l.cpu = (u.Utime.Nano() + u.Stime.Nano()) * ticksPerSecond / int64(time.Second)
	return l, nil
}
