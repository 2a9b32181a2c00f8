package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A pass is control's comparison of everything with everything. It begins so
// long after the one before, and has so long for the repair and for the gateways
// to acknowledge it.
const (
	passEvery = 2 * time.Second
	passTakes = 500 * time.Millisecond
	onePass   = passEvery + passTakes
)

// damage is something that is done to a published table while who reads it is
// dead; it is found when that one starts.
type damage struct {
	name string
	do   func(context.Context, *healing) error
}

// healing is a fleet whose tables are damaged.
type healing struct {
	*fleet
	tables [2]string // of the first gateway's disk: of the revision before, and of the one that serves
	file   string
}

// benchHeal damages the published table at a gateway and in the store, and
// takes the time from the start of who reads it until all is as before.
func benchHeal(ctx context.Context, b *bench) (*section, error) {
	f, err := b.fleet(ctx)
	if err != nil {
		return nil, err
	}
	defer f.end()
	h := &healing{fleet: f}
	if err := h.prepare(ctx); err != nil {
		return nil, err
	}
	t := verdicts()
	t.head = append(t.head, "answers by another revision meanwhile")
	for _, d := range []damage{
		{"a gateway's table truncated", onDisk(func(h *healing) string { return h.tables[1][:len(h.tables[1])/2] })},
		{"a gateway's table edited", onDisk(func(h *healing) string { return strings.ReplaceAll(h.tables[1], "bench-00002", "bench-00001") })},
		{"a gateway's table stale: of the revision before", onDisk(func(h *healing) string { return h.tables[0] })},
		{"a gateway's table removed", onDisk(func(*healing) string { return "" })},
		{"the store's routes edited", inStore(`UPDATE documents SET body = replace(body, 'bench-00002', 'bench-00001') WHERE kind = 'routes'`)},
		{"the store's routes truncated", inStore(`UPDATE documents SET body = substr(body, 1, length(body)/2) WHERE kind = 'routes'`)},
		{"the store's routes removed", inStore(`DELETE FROM documents WHERE kind = 'routes'`)},
	} {
		var took []float64
		wrong := 0
		for range b.runs {
			began, err := h.heal(ctx, d)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.name, err)
			}
			took = append(took, float64(began.took)/float64(time.Millisecond))
			wrong += began.wrong
		}
		most := slices.Max(took)
		t.add(d.name, spread(took, "%.0f ms"), "≤ "+ms(onePass)+", one pass", map[bool]string{true: "yes", false: "**no**"}[most <= float64(onePass.Milliseconds())], fmt.Sprint(wrong))
	}
	return &section{tables: []table{t}, notes: []string{fmt.Sprintf(
		"A pass is control's comparison of desired state, saga, catalog, published routes and what gateways serve and keep: it begins %s after the one before and after each change, and has %s for its work. The reader is killed, the table damaged, and the reader started; the time is from when it says that it is up until both gateways have answered the right revision ten times in a row and everyone names it.", passEvery, ms(passTakes))}}, nil
}

// prepare keeps what the first gateway had on its disk under either revision.
func (h *healing) prepare(ctx context.Context) error {
	h.file = filepath.Join(h.data, "gateway", h.gateways[0].name, "routes")
	for i := range 2 {
		want := fmt.Sprintf("bench-%05d", i+1)
		if _, err := h.rollback(ctx, want); err != nil {
			return err
		}
		err := h.await(ctx, "the table was kept", func() bool {
			text, err := os.ReadFile(h.file)
			h.tables[i] = string(text)
			return err == nil && strings.Contains(h.tables[i], want)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// onDisk puts other content into the table of the first gateway's disk.
func onDisk(content func(*healing) string) func(context.Context, *healing) error {
	return func(_ context.Context, h *healing) error {
		h.gateways[0].kill()
		if c := content(h); c != "" {
			return os.WriteFile(h.file, []byte(c), 0o600)
		}
		return os.Remove(h.file)
	}
}

// inStore runs a statement on the embedded store.
func inStore(statement string) func(context.Context, *healing) error {
	return func(ctx context.Context, h *healing) error {
		h.kill()
		stores, err := filepath.Glob(filepath.Join(h.data, "control", "*.db"))
		if err != nil || len(stores) != 1 {
			return errors.Join(err, fmt.Errorf("there is no one store: %v", stores))
		}
		_, err = output1(ctx, h.data, "sqlite3", stores[0], statement+"; SELECT changes();")
		return err
	}
}

type healed struct {
	took  time.Duration
	wrong int // answers of another revision; a gateway that has no table answers none
}

func (h *healing) heal(ctx context.Context, d damage) (healed, error) {
	if err := d.do(ctx, h); err != nil {
		return healed{}, err
	}
	select {
	case <-h.done:
		if err := h.startControl(ctx); err != nil {
			return healed{}, err
		}
	default:
		if err := h.startGateway(ctx, h.gateways[0]); err != nil {
			return healed{}, err
		}
	}
	const want = "bench-00002"
	began, found := time.Now(), healed{}
	for right := 0; right < 10; {
		switch h.answering(ctx) {
		case want:
			right++
			continue
		case "":
		default:
			found.wrong++
		}
		right = 0
		if time.Since(began) > 30*time.Second {
			return found, errors.New("not healed within 30 s")
		}
	}
	err := h.await(ctx, "everyone names what serves", func() bool {
		ok, err := h.served(ctx, want)
		return ok && err == nil
	})
	found.took = time.Since(began)
	return found, err
}

// answering is the revision that answers at both gateways, "" where one of them
// does not answer, or both of their names where they differ.
func (h *healing) answering(ctx context.Context) string {
	first := ""
	for _, g := range h.gateways {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.address+"/", nil)
		if err != nil {
			return ""
		}
		req.Host = "bench.localhost"
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return ""
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return ""
		}
		if first == "" {
			first = resp.Header.Get("Fairlead-Revision")
		} else if other := resp.Header.Get("Fairlead-Revision"); other != first {
			return "both " + first + " and " + other
		}
	}
	return first
}
