package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"
)

// Targets of the gateway, as ratios to Caddy's.
const (
	leastThroughput = 1.3
	mostP99         = 1.0
)

// A sample in which other programs had more than this share of the machine is
// taken again, so often.
const (
	disturbed = 0.10
	tries     = 4
	patience  = 5 * time.Minute // in all
)

var connectionCounts = []int{1, 32, 256}

// contest is the gateway's comparison while it runs.
type contest struct {
	proxies []*proxy
	// pids of backends, beside the proxies' own.
	pids    []int
	samples map[string]map[int][]sample // :: proxy → connections → one per round
	others  []float64                   // of each sample
	// patience is how long may still be spent on waiting for a calm machine and on
	// samples that are taken again.
	patience time.Duration
}

// sample is one proxy under load once.
type sample struct {
	load
	cpu time.Duration // of the proxy, per request
	// others is the share of the machine's CPU time that neither load nor proxy
	// nor backend used.
	others float64
}

func benchGateway(ctx context.Context, b *bench) (*section, error) {
	c := &contest{samples: map[string]map[int][]sample{}, patience: patience}
	defer func() {
		for _, p := range c.proxies {
			p.stop()
		}
	}()
	stop, err := c.assemble(ctx, b)
	defer stop()
	if err != nil {
		return nil, err
	}
	if err := c.play(ctx, b); err != nil {
		return nil, err
	}
	return c.section(b), nil
}

// assemble starts a backend with the peers before it, and ours with the same
// program deployed behind it; whichever is idle costs nothing.
func (c *contest) assemble(ctx context.Context, b *bench) (stop func(), err error) {
	program, err := b.backend(ctx)
	if err != nil {
		return func() {}, err
	}
	address, err := freeAddress()
	if err != nil {
		return func() {}, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return func() {}, err
	}
	backend, err := start([]string{"PORT=" + port}, program)
	if err != nil {
		return func() {}, err
	}
	c.pids = append(c.pids, backend.pid())
	if err := backend.awaitPort(ctx, address); err != nil {
		return backend.stop, err
	}
	ours, err := c.ours(ctx, b, program)
	if err != nil {
		return backend.stop, err
	}
	peers, err := b.peers(ctx, address)
	c.proxies = append([]*proxy{ours}, peers...)
	return backend.stop, err
}

func (c *contest) ours(ctx context.Context, b *bench, program string) (*proxy, error) {
	p, err := b.up(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := p.deploy(ctx, program, 1); err != nil {
		p.end()
		return nil, err
	}
	pid, err := p.instance(ctx)
	if err != nil {
		p.end()
		return nil, err
	}
	c.pids = append(c.pids, pid)
	return &proxy{name: "Fairlead", address: p.gateway, process: p.process, stop: p.end}, nil
}

// play takes the samples in rounds. In each everyone has a turn at every number
// of connections, and who begins moves on by one.
func (c *contest) play(ctx context.Context, b *bench) error {
	for _, p := range c.proxies {
		c.samples[p.name] = map[int][]sample{}
		if _, err := b.wrk(ctx, p.address, hostName, 256, time.Second); err != nil { // to warm up
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for round := range b.runs {
		for _, n := range connectionCounts {
			for i := range c.proxies {
				p := c.proxies[(i+round)%len(c.proxies)]
				if err := c.take(ctx, b, p, n); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
			}
		}
		fmt.Printf("round %d of %d\n", round+1, b.runs)
	}
	return nil
}

// take takes one sample. One that other programs disturbed is taken again, for
// everyone alike; where that does not help, the least disturbed counts.
func (c *contest) take(ctx context.Context, b *bench, p *proxy, connections int) error {
	began := time.Now()
	calm(ctx, c.patience)
	best, err := c.try(ctx, b, p, connections)
	if err != nil {
		return err
	}
	c.patience -= time.Since(began) - b.sample
	for try := 1; try < tries && best.others > disturbed && c.patience > 0; try++ {
		began := time.Now()
		calm(ctx, c.patience)
		s, err := c.try(ctx, b, p, connections)
		if err != nil {
			return err
		}
		if s.others < best.others {
			best = s
		}
		c.patience -= time.Since(began)
	}
	c.samples[p.name][connections] = append(c.samples[p.name][connections], best)
	c.others = append(c.others, best.others)
	return nil
}

func (c *contest) try(ctx context.Context, b *bench, p *proxy, connections int) (sample, error) {
	before, err := c.used(p)
	if err != nil {
		return sample{}, err
	}
	l, err := b.wrk(ctx, p.address, hostName, connections, b.sample)
	if err != nil {
		return sample{}, err
	}
	after, err := c.used(p)
	if err != nil {
		return sample{}, err
	}
	all := float64(after.all - before.all)
	known := float64(after.known - before.known + l.cpu)
	return sample{
		load: l, cpu: time.Duration(after.proxy-before.proxy) * time.Second / ticksPerSecond / time.Duration(l.requests),
		others: max(0, all-known) / (b.sample.Seconds() * ticksPerSecond * float64(thisMachine().cores)),
	}, nil
}

// calm waits until the machine has little to do, but not for long.
func calm(ctx context.Context, most time.Duration) {
	const look = 200 * time.Millisecond
	idle := disturbed * look.Seconds() * ticksPerSecond * float64(thisMachine().cores)
	for until := time.Now().Add(min(most, 10*time.Second)); time.Now().Before(until); {
		before, errBefore := busy()
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return
		}
		after, errAfter := busy()
		if errBefore != nil || errAfter != nil || float64(after-before) <= idle {
			return
		}
	}
}

// usage of CPU time, in ticks.
type usageTicks struct {
	proxy, known, all int64
}

func (c *contest) used(p *proxy) (u usageTicks, err error) {
	if u.proxy, err = cpuOf(p.process.pid()); err != nil {
		return u, err
	}
	u.known = u.proxy
	for _, pid := range c.pids {
		one, err := cpuOf(pid)
		if err != nil {
			return u, err
		}
		u.known += one
	}
	u.all, err = busy()
	return u, err
}

func (c *contest) section(b *bench) *section {
	measured := table{head: []string{"connections", "proxy", "requests/s", "p50", "p99", "CPU per request", "errors"}}
	against := verdicts()
	for _, n := range connectionCounts {
		for _, p := range c.proxies {
			s := c.samples[p.name][n]
			measured.add(fmt.Sprint(n), p.name, fmt.Sprintf("%.0f", median(each(s, rate))),
				fmt.Sprintf("%.2f ms", median(each(s, p50))), fmt.Sprintf("%.2f ms", median(each(s, p99))),
				fmt.Sprintf("%.0f µs", median(each(s, cpuPer))), fmt.Sprint(slices.Max(each(s, failures))))
		}
		ours, caddy := c.samples["Fairlead"][n], c.samples["Caddy"][n]
		more := ratios(each(ours, rate), each(caddy, rate))
		against.judge(fmt.Sprintf("requests/s, ours / Caddy's, %d connections", n), spread(more, "%.2f"),
			fmt.Sprintf("≥ %.1f", leastThroughput), median(more) >= leastThroughput)
		later := ratios(each(ours, p99), each(caddy, p99))
		against.judge(fmt.Sprintf("p99, ours / Caddy's, %d connections", n), spread(later, "%.2f"),
			fmt.Sprintf("≤ %.1f", mostP99), median(later) <= mostP99)
	}
	beside := table{head: []string{"requests/s, ours over"}}
	for _, n := range connectionCounts {
		beside.head = append(beside.head, fmt.Sprintf("%d connections", n))
	}
	for _, p := range c.proxies[1:] {
		row := []string{p.name}
		for _, n := range connectionCounts {
			row = append(row, spread(ratios(each(c.samples["Fairlead"][n], rate), each(c.samples[p.name][n], rate)), "%.2f"))
		}
		beside.add(row...)
	}
	return &section{tables: []table{measured, against, beside}, notes: []string{fmt.Sprintf(
		"%d interleaved rounds of %s a sample; load, proxy and backend share the cores. In brackets: the least and the most of a round. "+
			"ReverseProxy is net/http/httputil's; relay passes bytes on without reading them, which is what the network costs a Go program. "+
			"Other programs of the machine used %.0f%% of its CPU time (median of the samples; at most %.0f%%); "+
			"a sample with over %.0f%% was taken again up to %d times, and the least disturbed counts.",
		b.runs, b.sample, 100*median(c.others), 100*slices.Max(c.others), 100*disturbed, tries-1)}}
}

func each(all []sample, f func(sample) float64) []float64 {
	out := make([]float64, len(all))
	for i, s := range all {
		out[i] = f(s)
	}
	return out
}

func rate(s sample) float64     { return s.rate }
func p50(s sample) float64      { return float64(s.p50) / float64(time.Millisecond) }
func p99(s sample) float64      { return float64(s.p99) / float64(time.Millisecond) }
func cpuPer(s sample) float64   { return float64(s.cpu) / float64(time.Microsecond) }
func failures(s sample) float64 { return float64(s.errors) }
