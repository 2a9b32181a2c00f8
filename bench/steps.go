package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"
)

// sagaSteps of a deploy, in order.
var sagaSteps = []string{"queue", "install", "instances", "ready", "routes", "finalize"}

// steps collects how long each step of the deploys took, in milliseconds.
type steps map[string][]float64

// progress is one message of the WatchDeployment stream, as JSON.
type progress struct {
	Steps []struct {
		Step, State, Took string
	}
	Ended *struct{ Outcome string }
}

// read asks for a generation that has ended: its steps are told again.
func (s steps) read(ctx context.Context, p *product, generation int) error {
	body, err := p.watch(ctx, generation)
	if err != nil {
		return err
	}
	defer body.Close()
	took := map[string]time.Duration{}
	for {
		m, err := nextMessage(body)
		if err != nil {
			return fmt.Errorf("cannot watch the deployment: %w", err)
		}
		for _, one := range m.Steps {
			if d, err := time.ParseDuration(one.Took); err == nil && one.State == "done" {
				took[one.Step] = d
			}
		}
		if m.Ended != nil {
			break
		}
	}
	for step, d := range took {
		s[step] = append(s[step], float64(d)/float64(time.Millisecond))
	}
	return nil
}

// watch opens the stream that tells the progress of a generation of "bench".
func (p *product) watch(ctx context.Context, generation int) (io.ReadCloser, error) {
	body := enveloped(fmt.Appendf(nil, `{"service":"bench","generation":%d}`, generation))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api/fairlead.v1.ServiceAPIService/WatchDeployment", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Connect-Protocol-Version", "1")
	resp, err := p.operator().Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the deployment: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("cannot watch the deployment: %s", resp.Status)
	}
	return resp.Body, nil
}

// operator is a client of the API by the socket in the data folder.
func (p *product) operator() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(p.data, "api.sock"))
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// enveloped puts Connect's prefix of a streamed message before it: a byte of
// flags, four of length.
func enveloped(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func nextMessage(r io.Reader) (progress, error) {
	var prefix [5]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return progress{}, err
	}
	b := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return progress{}, err
	}
	if prefix[0]&2 != 0 { // the last one, which tells errors
		return progress{}, errors.New(string(b))
	}
	var m progress
	err := json.Unmarshal(b, &m)
	return m, err
}

func (s steps) table() table {
	t := table{head: []string{"step", "median", "longest"}}
	for _, step := range sagaSteps {
		if all := s[step]; len(all) > 0 {
			t.add(step, fmt.Sprintf("%.0f ms", median(all)), fmt.Sprintf("%.0f ms", slices.Max(all)))
		}
	}
	return t
}
