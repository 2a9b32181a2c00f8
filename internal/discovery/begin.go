package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
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
	records *records
	flush   chan struct{} // holds one: it is time to write a segment

	mu        sync.Mutex
	reg       *registry.Registry
	eval      *evaluate.Evaluator
	first     int64                           // the term's first tick
	contracts map[string]eligibility.Contract // :: service → declared contract
	handles   map[string]uint32               // :: instance → its handle of an earlier term
	known     map[string]bool                 // :: service → the evaluator has its route
	ended     map[string]int64                // :: instance → tick at which it was gone and not listed
	strangers map[string]bool                 // :: service → nothing knew it when it was asked last
	lost      map[string]bool                 // :: service → its last eligible instance left unplanned
	synced    int64                           // tick of the last listing
	changed   <-chan struct{}                 // of the hosts
	readAt    uint64                          // sequence at which contracts were read
	routesAt  uint64
	sealed    uint64
	heldDrops uint64 // instances whose drop from a listing was held
	probing   *probing
	over      bool // the term has ended
}

// begin rebuilds from the recorded transitions and the kept ticks. Nil: ctx
// ended before the store answered.
func (p *Plane) begin(ctx context.Context, l Lead) *term {
	t := &term{
		p: p, lead: l, log: p.log, keeper: evidence.NewKeeper(p.cfg.Bucket, l.Epoch().Incarnation), flush: make(chan struct{}, 1),
		contracts: map[string]eligibility.Contract{}, handles: map[string]uint32{},
		known: map[string]bool{}, ended: map[string]int64{}, strangers: map[string]bool{}, lost: map[string]bool{},
	}
	t.records = newRecords(l, p.log, t.living)
	for {
		recorded, ok := t.load(ctx)
		if ok {
			t.rebuild(ctx, recorded)
			t.routes()
			t.publish()
			return t
		}
		pause(ctx, retryAfter)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// load reads the contracts and the recorded transitions. It gives the last
// record of each instance.
func (t *term) load(ctx context.Context) (recorded map[string]Record, ok bool) {
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindTransition)
	if err != nil {
		t.log.Warn("cannot read the recorded transitions", "error", err)
		return nil, false
	}
	recorded = map[string]Record{} // :: instance → its last record
	for _, d := range docs {
		var x Record
		if err := json.Unmarshal(d.Body, &x); err != nil {
			t.log.Warn("a recorded transition cannot be read and is passed over", "record", d.Key, "error", err)
			continue
		}
		t.records.note(x)
		if recorded[x.Instance].Tick <= x.Tick {
			recorded[x.Instance] = x
		}
	}
	return recorded, t.loadProbers(ctx) && t.readContracts(ctx)
}

// rebuild makes evaluator and registry as they were.
func (t *term) rebuild(ctx context.Context, recorded map[string]Record) {
	rows, states, from, last := t.standing(recorded)
	kept, last := t.kept(ctx, from, last)
	top := uint32(0)
	for _, n := range kept.Names {
		t.handles[n.ID] = n.Handle
	}
	for _, h := range t.handles {
		top = max(top, h)
	}
	t.reg = registry.New(top)
	e := t.lead.Epoch()
	from = max(from, last-rebuildFrom)
	t.eval = evaluate.New(view.Version{Incarnation: e.Incarnation, Epoch: e.Number}, e, from)
	t.eval.Prober = t.probing.name
	t.first = last + 1
	t.ingest = evidence.New(last, watchFor)
	for _, row := range rows {
		t.contract(row.Service)
		t.reg.Put(row)
		t.know(row)
	}
	evaluate.Rebuild(t.eval, rows, states, kept.Ticks)
	if at := t.eval.Now(); at < last { // the tail was lost: time went on without evidence
		t.eval.Fold(evidence.Tick{Number: last})
	}
	for name := range t.known { // what was due in ticks that are lost is due now
		t.contract(name)
	}
	t.log.Info("discovery is rebuilt", "instances", len(rows), "ticks", len(kept.Ticks), "tick", last)
}

// standing are the instances that were there by their last records, the tick
// from which there is something to fold, and the last tick that a record
// speaks of.
func (t *term) standing(recorded map[string]Record) (rows []registry.Instance, states map[uint32]*eligibility.State, from, last int64) {
	states = map[uint32]*eligibility.State{}
	from = math.MaxInt64
	for id, x := range recorded {
		t.handles[id] = x.Row.Handle
		last = max(last, x.Tick)
		if x.Rule == eligibility.Gone || !t.lead.Knows(x.Service) || t.lead.Retired(x.Row.Host) {
			continue
		}
		rows = append(rows, x.Row)
		states[x.Row.Handle] = &x.State
		from = min(from, x.Tick)
	}
	slices.SortFunc(rows, func(a, b registry.Instance) int { return cmp.Compare(a.Handle, b.Handle) })
	return rows, states, min(from, last), last
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
