package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
)

// fleet is the product with every role a process of its own: a control, two
// gateways and a host on one data folder. The product's process is control's.
type fleet struct {
	*product
	gateways []*fleetGateway
	host     *process
	client   *http.Client
}

type fleetGateway struct {
	*process
	name, address, poll string
}

// fleet starts one, and deploys two revisions of the backend as "bench".
func (b *bench) fleet(ctx context.Context) (*fleet, error) {
	backend, err := b.backend(ctx)
	if err != nil {
		return nil, err
	}
	program, err := b.build(ctx, "..", "./cmd/fairlead")
	if err != nil {
		return nil, err
	}
	free, err := addresses(6)
	if err != nil {
		return nil, err
	}
	f := &fleet{product: &product{program: program, api: free[0], ops: free[1], gateway: free[2]}}
	f.client = f.operator()
	if f.data, err = os.MkdirTemp(b.dir, "data"); err != nil {
		return nil, err
	}
	f.gateways = []*fleetGateway{{name: "gw1", address: free[2], poll: free[3]}, {name: "gw2", address: free[4], poll: free[5]}}
	if err := f.begin(ctx, backend); err != nil {
		f.end()
		return nil, err
	}
	return f, nil
}

func (f *fleet) begin(ctx context.Context, backend string) error {
	if err := f.startControl(ctx); err != nil {
		return err
	}
	for _, g := range f.gateways {
		if err := f.startGateway(ctx, g); err != nil {
			return err
		}
	}
	token, err := f.run(ctx, "token", "create", "--role", "host")
	if err != nil {
		return err
	}
	f.host, err = f.role(ctx, "host", "--name", "h1", "--control", f.api, "--token", strings.TrimSpace(token))
	if err != nil {
		return err
	}
	for n := range 2 {
		if _, err := f.deploy(ctx, backend, n); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) role(ctx context.Context, role string, args ...string) (*process, error) {
	if role != "control" {
		args = append(args, "--ops", "127.0.0.1:0")
	}
	p, err := start(f.env(), f.program, append([]string{role, "--data", f.data}, args...)...)
	if err != nil {
		return nil, err
	}
	return p, p.await(ctx, "it said that it is up", func() bool { return strings.Contains(p.out.String(), role+" is up") })
}

func (f *fleet) startControl(ctx context.Context) (err error) {
	f.process, err = f.role(ctx, "control", "--api", f.api, "--ops", f.ops)
	return err
}

// startGateway starts it, with a token where it is the first time.
func (f *fleet) startGateway(ctx context.Context, g *fleetGateway) error {
	args := []string{"--name", g.name, "--control", f.api, "--listen", g.address, "--poll", g.poll}
	if g.process == nil {
		token, err := f.run(ctx, "token", "create", "--role", "gateway")
		if err != nil {
			return err
		}
		args = append(args, "--token", strings.TrimSpace(token))
	}
	p, err := f.role(ctx, "gateway", args...)
	g.process = p
	return err
}

// kill ends it without asking.
func (p *process) kill() {
	p.cmd.Process.Kill() // already gone is fine
	<-p.done
}

func (f *fleet) end() {
	f.client.CloseIdleConnections()
	for _, p := range []*process{f.host, f.gateways[0].process, f.gateways[1].process, f.process} {
		if p != nil {
			p.stop()
		}
	}
	os.RemoveAll(f.data) // the whole folder goes at the end in any case
}

// call one method of the API.
func (f *fleet) call(ctx context.Context, method string, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api/fairlead.v1.ServiceAPIService/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", method, resp.Status, text)
	}
	return json.Unmarshal(text, response)
}

// served says whether routes and catalog give all to the revision, and both
// gateways have acknowledged that.
func (f *fleet) served(ctx context.Context, revision string) (bool, error) {
	out, err := f.run(ctx, "status", "bench", "-o", "json")
	if err != nil {
		return false, nil // control is not there yet
	}
	type part struct {
		Revision string
		Percent  int
	}
	var s struct {
		Traffic []part
		Routes  struct {
			Traffic                []part
			Gateways, Acknowledged int
		}
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return false, fmt.Errorf("cannot read the status: %w\n%s", err, out)
	}
	all := func(p part) bool { return p.Revision == revision && p.Percent == 100 }
	return slices.ContainsFunc(s.Traffic, all) && slices.ContainsFunc(s.Routes.Traffic, all) && s.Routes.Gateways == 2 && s.Routes.Acknowledged == 2, nil
}
