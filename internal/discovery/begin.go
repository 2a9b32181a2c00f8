package discovery

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	// loadWait bounds how long a bucket out of reach may keep a term waiting.
	loadWait = 5 * time.Second
	// rebuildFrom is how many of the last ticks a rebuild folds at most.
	rebuildFrom = 1800
)

// term is what is held while this control leads.
type term struct {
	p       *Plane
	lead    Lead
	log     *slog.Logger
	ingest  *evidence.Ingest
	keeper  *evidence.Keeper
	archive Archive
	records *records
	flush   chan struct{} // holds one: it is time to write a segment
	hurried chan struct{} // holds one: something is urgent

	mu          sync.Mutex
	reg         *registry.Registry
	eval        *evaluate.Evaluator
	first       int64                           // the term's first tick
	contracts   map[string]eligibility.Contract // :: service → declared contract
	governed    map[string]service.Policy       // :: service → declared policy
	trips       map[string][]trip               // :: service → trips of its guard
	tripDocs    map[string]string               // :: service → its trips as they are, or are to be, on disk
	reserved    uint32                          // the first handle that the store does not know to be taken
	handles     map[string]uint32               // :: instance → its handle of an earlier term
	known       map[string]bool                 // :: service → the evaluator has its route
	ended       map[string]int64                // :: instance → tick at which it was gone and not listed
	alarms      map[string]map[string]Alarm     // :: service → kind → alarm in force
	fares       map[string]*fares               // :: service → how its requests fare; none that are quiet
	renewed     map[string]int64                // :: leased instance → tick at which it was renewed last
	unroutedAs  map[string][]string             // :: service without a deployment → revisions in its view
	externalsAt uint64                          // sequence at which external services were read
	words       map[string]service.Word         // :: instance → what it says about itself
	details     map[string]string               // :: instance → why it is not live, as its host sees it
	synced      int64                           // tick of the last listing
	changed     <-chan struct{}                 // of the hosts
	answers     map[string]answered             // :: host → its last answer that counted as another
	readAt      uint64                          // sequence at which contracts were read
	routesAt    uint64
	routed      map[string]view.Route // :: service → its route, as the evaluator has it
	turning     map[string]bool       // :: service → its view does not follow yet what its route, or a stop by plan, makes of it
	sealed      uint64
	heldDrops   uint64           // instances whose drop from a listing was held
	leaving     map[string]int64 // :: instance that is to stop by plan → tick at which that was said
	rest        budget.Rest      // what waits to be published
	tempo       budget.Pace
	began       time.Time
	took        time.Duration // of the last second, for its work
	probing     *probing
	detection   detection
	sealedAt    time.Time           // of the last tick, for people
	declared    []registry.Instance // somebody else's, as declared
	declaredAt  time.Time           // when they were read last; zero is never
	declaredBad time.Time           // since when one of them cannot be read; zero is that all can
	away        bucketAway
	over        bool // the term has ended
}

// begin rebuilds from the recorded transitions and the kept ticks. Nil: ctx
// ended before the store answered.
func (p *Plane) begin(ctx context.Context, l Lead) *term {
	t := &term{
		leaving: map[string]int64{}, routed: map[string]view.Route{}, turning: map[string]bool{}, p: p, lead: l, log: p.log, began: time.Now(), keeper: evidence.NewKeeper(p.cfg.Bucket, l.Epoch().Incarnation), flush: make(chan struct{}, 1), hurried: make(chan struct{}, 1), archive: NewArchive(p.cfg.Bucket),
		contracts: map[string]eligibility.Contract{}, governed: map[string]service.Policy{}, trips: map[string][]trip{}, tripDocs: map[string]string{}, handles: map[string]uint32{},
		known: map[string]bool{}, ended: map[string]int64{}, alarms: map[string]map[string]Alarm{}, fares: map[string]*fares{}, words: map[string]service.Word{}, answers: map[string]answered{}, details: map[string]string{}, renewed: map[string]int64{}, unroutedAs: map[string][]string{},
	}
	t.detection.begin(p.detected)
	t.records = newRecords(l, p.log, t.living)
	for {
		had, ok := t.load(ctx)
		if ok && t.rebuild(ctx, had) {
			t.routes()
			p.cfg.Views.Begin(t.eval.Epoch)
			t.publish(true)
			return t
		}
		pause(ctx, retryAfter)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// had is what the store held when the term began.
type had struct {
	recorded map[string]Record            // :: instance → its last record
	rows     map[string]registry.Instance // :: instance → its row
	trips    []store.Document             // of guards that a person decides
}

// load reads the contracts, the recorded transitions and the rows.
func (t *term) load(ctx context.Context) (h had, ok bool) {
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindTransition)
	if err != nil {
		t.log.Warn("cannot read the recorded transitions", "error", err)
		return h, false
	}
	h.recorded = map[string]Record{}
	for _, d := range docs {
		var x Record
		if err := json.Unmarshal(d.Body, &x); err != nil {
			t.log.Warn("a recorded transition cannot be read and is passed over", "record", d.Key, "error", err)
			continue
		}
		t.records.note(x)
		if h.recorded[x.Instance].Tick <= x.Tick {
			h.recorded[x.Instance] = x
		}
	}
	if h.trips, _, err = t.p.cfg.Store.List(ctx, service.KindGuard); err != nil {
		t.log.Warn("cannot read the trips of guards", "error", err)
		return h, false
	}
	if h.rows, ok = t.readRows(ctx); !ok {
		return h, false
	}
	return h, t.loadProbers(ctx) && t.readContracts(ctx)
}

// rebuild makes evaluator and registry as they were. False says that the store
// did not answer.
func (t *term) rebuild(ctx context.Context, h had) bool {
	top, ok := t.reserve(ctx)
	if !ok {
		return false
	}
	rows, states, from, last := t.standing(h, top == 1)
	kept, last := t.kept(ctx, from, last)
	for _, n := range kept.Names {
		t.handles[n.ID] = n.Handle
	}
	seen := top
	for _, h := range t.handles {
		seen = max(seen, h+1)
	}
	if seen > top {
		if top = seen; t.commitHandles(ctx, top+handleBlock) != nil {
			return false
		}
	}
	t.reg = registry.New(top - 1)
	e := t.lead.Epoch()
	from = max(from, last-rebuildFrom)
	t.eval = evaluate.New(view.Version{Incarnation: e.Incarnation, Epoch: e.Number}, e, from)
	t.eval.Prober = t.probing.name
	t.first = last + 1
	t.ingest = evidence.New(last, watchFor)
	for _, row := range rows {
		t.contract(row.Service)
		if row.Source == registry.Host && slices.Contains(t.lead.Leaving(row.Service), row.Slot) {
			row.Terminating, t.leaving[row.ID] = true, last
		}
		t.reg.Put(row)
		t.know(row)
		t.records.stage(row)
	}
	evaluate.Rebuild(t.eval, rows, states, kept.Ticks)
	t.restoreTrips(h.trips)
	if at := t.eval.Now(); at < last { // the tail was lost: time went on without evidence
		t.eval.Fold(evidence.Tick{Number: last})
	}
	for name := range t.known { // what was due in ticks that are lost is due now
		t.contract(name)
	}
	t.log.Info("discovery is rebuilt", "instances", len(rows), "ticks", len(kept.Ticks), "tick", last)
	return true
}

// standing are the instances that were there, each with the state of its last
// record, the tick from which there is something to fold, and the last tick
// that a record speaks of. A store that no handle was ever reserved in was
// written by a program that kept no rows: its records stand for them.
func (t *term) standing(h had, rowless bool) (rows []registry.Instance, states map[uint32]*eligibility.State, from, last int64) {
	states = map[uint32]*eligibility.State{}
	from = math.MaxInt64
	for id, x := range h.recorded {
		t.handles[id] = x.Row.Handle
		last = max(last, x.Tick)
		if _, has := h.rows[id]; !has && rowless && x.Rule != eligibility.Gone {
			h.rows[id] = x.Row
		}
	}
	for id, row := range h.rows {
		t.handles[id] = row.Handle
		if row.Gone || !t.belongs(row) {
			t.records.unstage(id)
			continue
		}
		rows = append(rows, row)
		if x, has := h.recorded[id]; has && x.Row.Handle == row.Handle {
			states[row.Handle] = &x.State
			from = min(from, x.Tick)
		}
	}
	return sorted(rows), states, min(from, last), last
}

// belongs reports whether there is still somebody for whose instance a row
// speaks: its service, and its host.
func (t *term) belongs(x registry.Instance) bool {
	return x.Source != registry.Host || t.lead.Knows(x.Service) && !t.lead.Retired(x.Host)
}

// kept reads the ticks after from. Ticks are numbered on from the last one
// that is known. Where the bucket cannot say which that is, they go on from the
// clock, which they never overtake.
func (t *term) kept(ctx context.Context, from, last int64) (evidence.Kept, int64) {
	within, cancel := context.WithTimeout(ctx, loadWait)
	defer cancel()
	newest, err := t.keeper.Last(within)
	last = max(last, newest)
	if last == 0 || err != nil {
		last = max(last, t.p.cfg.Now().Unix())
	}
	var kept evidence.Kept
	if err == nil {
		kept, err = t.keeper.Load(within, max(from, last-rebuildFrom))
	}
	if err != nil {
		t.log.Warn("kept evidence cannot be read, or not all of it: recorded verdicts stand until fresh evidence moves them", "error", err)
	}
	return kept, last
}
