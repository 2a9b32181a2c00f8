package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// crowd is a server of views and its subscribers, each in a process of its own.
type crowd struct {
	server     *exec.Cmd
	in         io.WriteCloser
	out        *bufio.Scanner
	client     *process
	of         int
	heap, from int64 // KiB that the server used with the subscribers, and before
	joined     time.Duration
}

// measured is what the server answers.
type measured struct {
	P99, P999 float64
	Churned   *struct {
		Changes                int
		Withdrawals, Additions int64
		In5, In15, In30        float64
		Window, Behind         float64
	}
	Bytes             int64
	CPU               float64
	HeapKiB, StackKiB int64
}

func (b *bench) crowd(ctx context.Context, program string, ours bool, subscribers, endpoints int) (_ *crowd, err error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{fmt.Sprintf("-ours=%t", ours), "-subscribers", strconv.Itoa(subscribers), "-endpoints", strconv.Itoa(endpoints)}
	c := &crowd{of: subscribers, server: exec.CommandContext(ctx, program, append(args, "-listen", address)...)}
	c.server.Stderr = os.Stderr
	c.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.in, err = c.server.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	if err := c.server.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if !c.out.Scan() || c.out.Text() != "ready" {
		return nil, errors.New("the server of views did not begin")
	}
	m, err := c.ask("memory")
	if err != nil {
		return nil, err
	}
	c.from = m.HeapKiB + m.StackKiB
	began := time.Now()
	if c.client, err = start(nil, program, append(args, "-subscribe", address)...); err != nil {
		return nil, err
	}
	if _, err = c.ask("await"); err != nil {
		return nil, err
	}
	c.joined = time.Since(began)
	if m, err = c.ask("memory"); err != nil {
		return nil, err
	}
	c.heap = m.HeapKiB + m.StackKiB
	return c, nil
}

// ask a command, and wait for its answer.
func (c *crowd) ask(command string) (m measured, err error) {
	if _, err := fmt.Fprintln(c.in, command); err != nil {
		return m, fmt.Errorf("the server of views has ended: %w", err)
	}
	if !c.out.Scan() {
		return m, fmt.Errorf("the server of views ended during %q", command)
	}
	return m, json.Unmarshal(c.out.Bytes(), &m)
}

func (c *crowd) stop() {
	c.server.Process.Kill() // it holds nothing
	c.server.Wait()
	if c.client != nil {
		c.client.cmd.Process.Kill()
		<-c.client.done
	}
}

func (c *crowd) each() float64 { return float64(c.heap-c.from) / float64(c.of) }

// fails takes an instance out some times: the medians. Each turn is two changes.
func (c *crowd) fails(n int) (p99, p999, bytes, cpu float64, err error) {
	var a, aa, bs, cs []float64
	for range n {
		m, err := c.ask("fail")
		if err != nil {
			return 0, 0, 0, 0, err
		}
		a, aa, bs, cs = append(a, m.P99/1000), append(aa, m.P999/1000), append(bs, float64(m.Bytes)/2), append(cs, m.CPU/2)
	}
	return median(a), median(aa), median(bs), median(cs), nil
}

// benchViews measures how a change reaches many subscribers, on the same cores.
func benchViews(ctx context.Context, b *bench) (*section, error) {
	program, err := b.build(ctx, ".", "./fanout")
	if err != nil {
		return nil, err
	}
	s, t := &section{}, verdicts()
	most, some, few, turns := 60_000, 6_000, 600, 3
	steady, burst, rate := 20*time.Second, time.Minute, 15*time.Second
	if b.quick {
		most, some, few, turns = 3_000, 600, 60, 2
		steady, burst, rate = 5*time.Second, 10*time.Second, 5*time.Second
	}
	if err := b.many(ctx, program, &t, most, turns, steady, burst); err != nil {
		return nil, err
	}
	if err := b.against(ctx, program, &t, some, 100, turns, rate, 30); err != nil {
		return nil, err
	}
	if err := b.against(ctx, program, &t, few, 3000, turns, 0, 1000); err != nil {
		return nil, err
	}
	s.tables = append(s.tables, t)
	s.notes = append(s.notes, "Server and subscribers are two processes on the same cores, 100 streams a connection, TLS; each subscriber holds the first of 450 services, whose instance fails, and nine others, and acknowledges all. "+
		"A failure is counted from before the 50 ms for which it is gathered. Of the changes of the steady time half are failures, of those of the burst one in twenty; what is no failure may wait, and under saturation waits. "+
		"go-control-plane's is the delta EDS of its linear cache, which is told at once; its changes are endpoints that leave and come.")
	return s, nil
}

// many subscribers of one service.
func (b *bench) many(ctx context.Context, program string, t *table, n, turns int, steady, burst time.Duration) error {
	c, err := b.crowd(ctx, program, true, n, 20)
	if err != nil {
		return err
	}
	defer c.stop()
	who := thousands(n) + " subscribers"
	t.add(who+": all subscribed and current after", fmt.Sprintf("%.0f s", c.joined.Seconds()), "", "")
	t.add(who+": heap and stacks of the server, each, with the transport's", fmt.Sprintf("%.1f KiB", c.each()), "", "")
	p99, p999, _, _, err := c.fails(turns)
	if err != nil {
		return err
	}
	t.judge(who+": a failure to 99% acknowledged", fmt.Sprintf("%.2f s", p99), "≤ 1.5 s", p99 <= 1.5)
	t.judge(who+": a failure to 99.9% acknowledged", fmt.Sprintf("%.2f s", p999), "≤ 2.5 s", p999 <= 2.5)
	for _, x := range []struct {
		name     string
		rate     int
		d        time.Duration
		failures int
	}{{"2,500 changes a minute", 42, steady, 50}, {"40,000 changes a minute", 667, burst, 5}} {
		m, err := c.ask(fmt.Sprintf("churn %d %s %d", x.rate, x.d, x.failures))
		if err != nil {
			return err
		}
		h := m.Churned
		t.judge(fmt.Sprintf("%s, %s: withdrawals acknowledged in 5 s / in 15 s", who, x.name), fmt.Sprintf("%.3f%% / %.3f%%", 100*h.In5, 100*h.In15), "≥ 99% / 99.9%", h.In5 >= 0.99 && h.In15 >= 0.999)
		t.judge(fmt.Sprintf("%s, %s: additions acknowledged in 30 s", who, x.name), fmt.Sprintf("%.3f%%", 100*h.In30), "≥ 99%", h.In30 >= 0.99)
		t.add(fmt.Sprintf("%s, %s: longest window of additions; cores used by the server", who, x.name), fmt.Sprintf("%.0f s; %.2f", h.Window, m.CPU/(x.d.Seconds()+max(h.Behind, 0))), "", "")
	}
	return nil
}

// against compares one size with go-control-plane's.
func (b *bench) against(ctx context.Context, program string, t *table, n, endpoints, turns int, churn time.Duration, fewer float64) error {
	type figures struct{ p99, bytes, cpu, each, behind, made float64 }
	var got [2]figures
	for i, ours := range []bool{true, false} {
		c, err := b.crowd(ctx, program, ours, n, endpoints)
		if err != nil {
			return err
		}
		f := &got[i]
		f.each = c.each()
		if f.p99, _, f.bytes, f.cpu, err = c.fails(turns); err == nil && churn > 0 {
			var m measured
			if m, err = c.ask(fmt.Sprintf("churn 667 %s 5", churn)); err == nil {
				f.behind, f.made = m.Churned.Behind, float64(m.Churned.Changes)/churn.Seconds()
				if ours {
					h := m.Churned
					t.judge(fmt.Sprintf("%s × %d, 667 changes/s: withdrawals in 5 s / 15 s, additions in 30 s", thousands(n), endpoints),
						fmt.Sprintf("%.2f%% / %.2f%%, %.2f%%", 100*h.In5, 100*h.In15, 100*h.In30), "≥ 99% / 99.9%, 99%", h.In5 >= 0.99 && h.In15 >= 0.999 && h.In30 >= 0.99)
				}
			}
		}
		c.stop()
		if err != nil {
			return err
		}
	}
	o, x := got[0], got[1]
	size := fmt.Sprintf("%s × %d, one change, ", thousands(n), endpoints)
	t.judge(size+"to 99% (peer, ratio)", fmt.Sprintf("%.2f s (%.2f s, %.2f)", o.p99, x.p99, o.p99/x.p99), "≤ 1/2", o.p99 <= x.p99/2)
	t.judge(size+"bytes (peer, ratio)", fmt.Sprintf("%.2f MiB (%.1f MiB, 1/%.0f)", o.bytes/(1<<20), x.bytes/(1<<20), x.bytes/o.bytes), fmt.Sprintf("≤ 1/%.0f", fewer), o.bytes <= x.bytes/fewer)
	t.judge(size+"CPU of the server (peer, ratio)", fmt.Sprintf("%.2f s (%.2f s, %.2f)", o.cpu, x.cpu, o.cpu/x.cpu), "≤ 1/3", o.cpu <= x.cpu/3)
	t.add(size+"server's memory each (peer)", fmt.Sprintf("%.1f KiB (%.1f KiB)", o.each, x.each), "", "")
	if churn > 0 {
		t.add(fmt.Sprintf("%s × %d, 667 changes/s asked for %s: made a second, and current again after (peer)", thousands(n), endpoints, churn),
			fmt.Sprintf("%.0f, %s (%.0f, %s)", o.made, behindText(o.behind), x.made, behindText(x.behind)), "", "")
	}
	return nil
}

func behindText(s float64) string {
	if s < 0 {
		return "more than 60 s"
	}
	return fmt.Sprintf("%.1f s", s)
}

func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
