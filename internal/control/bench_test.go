package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/memory"
	"github.com/fairlead-platform/fairlead/view"
)

// still is a world in which nothing changes.
type still struct {
	hosts    []service.HostState
	gateways []service.GatewayState
	never    chan struct{}
}

type stillHosts struct{ *still }

func (s stillHosts) States() []service.HostState { return s.hosts }
func (s stillHosts) Changed() <-chan struct{}    { return s.never }
func (s stillHosts) Prepare(context.Context, view.Epoch, string, string, service.Template) error {
	return nil
}

func (s stillHosts) Assign(context.Context, view.Epoch, string, service.Assignment) error { return nil }

func (s stillHosts) Stop(context.Context, view.Epoch, string, service.Stop) error { return nil }

func (s stillHosts) Release(context.Context, view.Epoch, string, service.Release) error { return nil }

type stillGateways struct{ *still }

func (s stillGateways) Offer(*view.Table)              {}
func (s stillGateways) States() []service.GatewayState { return s.gateways }
func (s stillGateways) Changed() <-chan struct{}       { return s.never }

// steadyTerm is a leader of n services of which each serves, with 20 sagas and
// 100 events of history.
func steadyTerm(tb testing.TB, n int) *term {
	tb.Helper()
	w := &still{never: make(chan struct{}), hosts: []service.HostState{{Host: service.Host{Name: "a", Zone: "z"}, Connected: true, Reported: true}}}
	c := New(Config{Store: memory.Open(memory.Options{}), Hosts: stillHosts{w}, Gateways: stillGateways{w}, Logger: slog.New(slog.DiscardHandler)})
	m := newMirror(c.cfg.DigestKey)
	var docs []store.Document
	add := func(kind, name string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			tb.Fatal(err)
		}
		docs = append(docs, store.Document{Key: key(kind, name), Version: uint64(len(docs) + 1), Body: b})
	}
	template := service.Template{Command: []string{"python3", "-m", "http.server", "$(PORT)"}, Env: map[string]string{"A": "1", "B": "2"}}
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		rev := service.Revision{
			Name: service.RevisionName(name, 1), Service: name, Number: 1, Digest: template.Digest(c.cfg.DigestKey),
			State: service.RevisionServing, Template: template, Generation: 1, NextIndex: 1,
			Slots: []service.Slot{{ID: service.SlotID(service.RevisionName(name, 1), 0), Host: "a", Zone: "z"}},
		}
		d := service.Desired{Service: name, Generation: 1, Template: template, Instances: 1}
		cat := service.Catalog{
			Service: name, ObservedGeneration: 1, LastRevision: 1, Latest: rev.Name, Hosts: d.HostsOf(),
			Traffic: []service.CatalogPart{{Revision: rev.Name, Percent: 100, Group: rev.Name}},
		}
		s := &service.Snapshot{Service: name, Revisions: []service.Doc[service.Revision]{{Value: rev, Version: 1}}}
		add(service.KindDesired, name, d)
		add(service.KindRevision, rev.Name, rev)
		add(service.KindCatalog, name, cat)
		add(service.KindRoutes, name, service.Routes{Service: name, Plan: s.PlanRoutes(cat.Traffic, cat.Hosts)})
		for k := range 20 {
			id := saga.Identity{Owner: name, Kind: service.WorkCollect, Subject: rev.Name, Minted: fmt.Sprint(k)}
			add(service.KindSaga, id.String(), saga.Record{ID: id.String(), Kind: id.Kind, Owner: name, State: saga.Done})
		}
		for k := range 100 {
			add(service.KindEvent, fmt.Sprintf("%s.%05d", name, k), service.Event{Service: name})
		}
		w.hosts[0].Instances = append(w.hosts[0].Instances, service.Instance{ID: name, Slot: rev.Slots[0].ID, Service: name, Revision: rev.Name, Host: "a", State: service.InstanceLive})
	}
	for i := range 3 {
		g := fmt.Sprintf("g%d", i)
		v := view.Version{Incarnation: c.cfg.Store.Incarnation(), Epoch: 1, Counter: uint64(len(docs))}
		add(service.KindGateway, g, service.Gateway{Name: g, Serves: v, Keeps: v})
		w.gateways = append(w.gateways, service.GatewayState{Name: g, Connected: true, Serves: v, Keeps: v})
	}
	m.load(docs, uint64(len(docs)))
	t := &term{
		c: c, mirror: m, began: time.Now(), clocks: newClocks(), workers: map[string]bool{}, needs: map[string]string{},
		pauses: map[string]held{}, absent: map[string]time.Duration{}, wake: make(chan struct{}, 1),
	}
	t.led = &led{store: c.cfg.Store, mirror: m, mint: c.mint, epoch: view.Epoch{Incarnation: c.cfg.Store.Incarnation(), Number: 1}}
	return t
}

func BenchmarkPass(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			t := steadyTerm(b, n)
			b.ReportAllocs()
			for b.Loop() {
				t.forget()
				t.pass(b.Context(), t.everything())
			}
			if len(t.workers) > 0 {
				b.Fatalf("%d services had work", len(t.workers))
			}
		})
	}
}

func BenchmarkOffer(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			t := steadyTerm(b, n)
			for b.Loop() {
				t.mirror.routesAt++
				t.offer()
			}
		})
	}
}

// The pass's time is for BenchmarkPass; a busy machine shows no more than how it grows.
func TestAPassOverUnchangedServicesTakesNoWorkAndGrowsNoFasterThanTheirNumber(t *testing.T) {
	few, many := steadyTerm(t, 100), steadyTerm(t, 1000)
	passes := func(n int, of *term) time.Duration {
		began := time.Now()
		for range n {
			of.pass(t.Context(), of.everything())
		}
		return time.Since(began)
	}
	// Both times are about as long, so that a busy machine interrupts the one as
	// often as the other.
	least := [2]time.Duration{time.Hour, time.Hour}
	for range 10 {
		least[0], least[1] = min(least[0], passes(10, few)), min(least[1], passes(1, many))
	}
	if len(many.workers) != 0 || len(many.needs) != 0 {
		t.Errorf("%d services have work, %d need an operator", len(many.workers), len(many.needs))
	}
	if least[1] > 5*least[0] {
		t.Errorf("ten passes over 100 services take %s, one over 1,000 %s", least[0], least[1])
	}
}
