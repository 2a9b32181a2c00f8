package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program under test. It dies with us.
type process struct {
	cmd  *exec.Cmd
	out  output
	done chan struct{}
}

// output is what a process said.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func start(env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait() // how it ended is told by its output
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends it, by force where asking does not help within 15 s.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM) // already gone is fine
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.cmd.Process.Kill()
		<-p.done
	}
}

// await polls until cond holds, the process ends, or 30 s have passed.
func (p *process) await(ctx context.Context, what string, cond func() bool) error {
	late := time.After(30 * time.Second)
	for !cond() {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before %s:\n%s", filepath.Base(p.cmd.Path), what, p.out.String())
		case <-late:
			return fmt.Errorf("%s: %s not within 30 s:\n%s", filepath.Base(p.cmd.Path), what, p.out.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

func (p *process) awaitPort(ctx context.Context, address string) error {
	return p.await(ctx, "it listened on "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

// freeAddress is a loopback port below those that the kernel and hosts give out.
func freeAddress() (string, error) {
	for i := range 5000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+(os.Getpid()*41+int(time.Now().UnixNano()/1000)+i)%9000)
		l, err := net.Listen("tcp", address)
		if err == nil {
			l.Close()
			return address, nil
		}
	}
	return "", errors.New("no free port between 10000 and 19000")
}

// addresses are distinct free ones.
func addresses(n int) ([]string, error) {
	seen, all := map[string]bool{}, []string{}
	for len(all) < n {
		a, err := freeAddress()
		if err != nil {
			return nil, err
		}
		if !seen[a] {
			seen[a], all = true, append(all, a)
		}
	}
	return all, nil
}

// build builds a command of a module's folder and returns the program's path.
func (b *bench) build(ctx context.Context, module, command string) (string, error) {
	to := filepath.Join(b.dir, filepath.Base(command))
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	fmt.Printf("building %s\n", filepath.Base(command))
	_, err := output1(ctx, module, "go", "build", "-o", to, command)
	return to, err
}

// output1 runs a command in a folder and returns what it printed; where it
// fails that is part of the error.
func output1(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, tail(errs.String()), tail(out.String()))
	}
	return out.String(), nil
}

func tail(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
