package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// product is one `fairlead up` on a data folder of its own.
type product struct {
	*process
	program, data              string
	api, gateway, ops, polling string
}

// up builds the product and starts it on an empty folder; it returns once the
// product says that it is up and the gateway answers a request.
func (b *bench) up(ctx context.Context) (*product, error) {
	program, err := b.build(ctx, "..", "./cmd/fairlead")
	if err != nil {
		return nil, err
	}
	free, err := addresses(4)
	if err != nil {
		return nil, err
	}
	p := &product{program: program, api: free[0], gateway: free[1], ops: free[2], polling: free[3]}
	if p.data, err = os.MkdirTemp(b.dir, "data"); err != nil {
		return nil, err
	}
	p.process, err = start(p.env(), program, "up", "--data", p.data, "--api", p.api, "--gateway", p.gateway, "--ops", p.ops, "--poll", p.polling)
	if err != nil {
		return nil, err
	}
	if err := p.awaitServing(ctx); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

func (p *product) env() []string { return []string{"FAIRLEAD_DATA=" + p.data, "NO_COLOR=1"} }

func (p *product) awaitServing(ctx context.Context) error {
	err := p.await(ctx, "it said that it is up", func() bool { return strings.Contains(p.out.String(), "fairlead is up") })
	if err != nil {
		return err
	}
	return p.await(ctx, "the gateway answered", func() bool {
		resp, err := http.Get("http://" + p.gateway + "/")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return true
	})
}

func (p *product) end() {
	p.stop()
	os.RemoveAll(p.data) // the whole folder goes at the end in any case
}

// run runs one command of the command line to its end.
func (p *product) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return output1(ctx, p.data, "env", append(append(p.env(), p.program), args...)...)
}

// deploy deploys the backend as "bench"; each call with another n is another revision.
func (p *product) deploy(ctx context.Context, backend string, n int) (string, error) {
	return p.run(ctx, "deploy", "bench", "--env", fmt.Sprintf("N=%d", n), "--concurrency", "1024", "--", backend)
}

// instance is the pid of the one that serves.
func (p *product) instance(ctx context.Context) (int, error) {
	out, err := p.run(ctx, "status", "bench", "-o", "json")
	if err != nil {
		return 0, err
	}
	var s struct {
		Instances []struct {
			Pid   int
			State string
		}
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return 0, fmt.Errorf("cannot read the status: %w\n%s", err, out)
	}
	for _, i := range s.Instances {
		if i.State == "live" {
			return i.Pid, nil
		}
	}
	return 0, fmt.Errorf("no instance is live:\n%s", out)
}

// backend builds the program that answers behind every proxy.
func (b *bench) backend(ctx context.Context) (string, error) {
	program, err := b.build(ctx, ".", "./backend")
	if err != nil {
		return "", err
	}
	return filepath.Abs(program)
}
