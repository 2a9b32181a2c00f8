package discovery

import (
	"context"
	"maps"
	"time"

	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	sweepEvery = 60  // ticks
	trimEvery  = 600 // ticks
	keptFor    = 7 * 24 * 3600
	keptBytes  = 1 << 30
)

// second is one turn of the plane.
func (t *term) second(ctx context.Context) {
	began := time.Now()
	// 1. What people declared, and what is published.
	t.readContracts(ctx)
	t.readExternals(ctx)
	t.mu.Lock()
	t.routes()
	// 2. What is there, and what is said of it; then the second is over.
	t.hosts()
	t.leases()
	t.unrouted()
	t.attendance()
	t.suspicion()
	tick := t.ingest.Seal()
	t.charged()
	t.failing(tick)
	t.sealed++
	t.sealedAt = t.p.cfg.Now()
	full := t.keeper.Add(tick, t.named)
	// 3. The verdicts.
	t.endGrace()
	transitions := t.fold(tick)
	t.expire(tick.Number)
	t.paces(tick.Number)
	t.mu.Unlock()
	if full {
		select {
		case t.flush <- struct{}{}:
		default:
		}
	}
	// 4. On disk before it is published, unless the store takes too long.
	t.took = time.Since(began)
	t.records.put(ctx, transitions)
	began = time.Now()
	t.publish(true)
	t.took += time.Since(began)
	t.regulate()
	t.propagation()
	if len(transitions) > 0 {
		t.p.moved()
	}
	if tick.Number%sweepEvery == 0 {
		t.mu.Lock()
		t.forgetServices()
		t.detection.sweep(time.Now())
		t.mu.Unlock()
		t.reserveMore(ctx)
	}
}

// routes tells the evaluator what is published.
func (t *term) routes() {
	if e := t.lead.Epoch(); e != t.eval.Epoch {
		t.p.cfg.Views.Begin(e)
		for _, v := range t.eval.Lead(e) {
			t.p.cfg.Views.Publish(v, view.Adds)
		}
	}
	all, at := t.lead.Routes()
	if at == t.routesAt {
		return
	}
	t.routesAt = at
	routed := map[string]bool{} // :: service → has a route
	for _, r := range all {
		if routed[r.Service] = true; !t.known[r.Service] {
			t.contract(r.Service)
		}
		if was, is := t.routed[r.Service]; is && service.SamePlan(was, r) {
			continue
		}
		t.routed[r.Service], t.turning[r.Service] = r, true
		t.eval.SetRoute(r)
	}
	maps.DeleteFunc(t.routed, func(name string, _ view.Route) bool { return !routed[name] })
	t.forgetServices()
}

// forgetServices drops services that have neither a route nor an instance. The last
// instance may be gone long after the route, and of some there never was one.
func (t *term) forgetServices() {
	for name := range t.known {
		if _, routed := t.routed[name]; !routed && len(t.reg.Of(name)) == 0 {
			t.eval.Forget(name)
			t.p.cfg.Views.Forget(name)
			delete(t.turning, name)
			delete(t.known, name)
			delete(t.alarms, name)
			delete(t.fares, name)
			t.rest.Done(name)
			t.detection.forget(name)
			delete(t.trips, name)
			t.recordTrips(name, nil)
			delete(t.unroutedAs, name)
		}
	}
}

func (t *term) fold(tick evidence.Tick) (out []Record) {
	at := t.p.cfg.Now().UTC()
	for _, x := range t.eval.Fold(tick) {
		out = append(out, t.record(x, at)...)
	}
	return out
}

// record makes the record of a transition; none where the instance is not known
// any more.
func (t *term) record(x evaluate.Transition, at time.Time) []Record {
	row, known := t.reg.Get(x.Instance)
	if !known {
		return nil
	}
	if x.Ready && !row.EverReady {
		row.EverReady = true
		t.reg.Put(row)
		t.records.stage(row)
	}
	t.detection.verdict(x.Service, x.Handle, x.Change, time.Now())
	r := recordOf(x, row, at)
	t.log.Info("verdict", "service", x.Service, "instance", x.Instance, "from", x.From, "to", x.To, "rule", x.Rule, "why", r.Why)
	return []Record{r}
}

// between is what is not left to the next second: instances that ended by the
// word of who ran them, which no evidence says more about, instances whose
// port is closed, and routes that are others.
func (t *term) between(ctx context.Context) {
	t.mu.Lock()
	t.routes()
	left := append(t.takeEnded(), t.takeRefused()...)
	t.mu.Unlock()
	if len(left) > 0 {
		t.records.put(ctx, left)
	}
	t.publish(false)
	if len(left) > 0 {
		t.p.moved()
	}
}

// takeRefused folds what was heard of instances in this second that puts them
// out by hard evidence.
func (t *term) takeRefused() (out []Record) {
	at := t.p.cfg.Now().UTC()
	t.ingest.SealEarly(func(r evidence.TickRow) bool {
		x, left := t.eval.Early(r)
		if left {
			out = append(out, t.record(x, at)...)
		}
		return left
	})
	return out
}

// publish hands over the views of what changed: what takes traffic from trouble
// at once, and the rest at a second's turn, once it has waited for the window.
// What a service's routes turn to is not waited with, unless there is more to
// send than can be sent: somebody waits for it.
func (t *term) publish(turn bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, window := time.Since(t.began), t.tempo.Window()
	due := func(name string) bool {
		return turn && t.rest.Due(name, now, window) || t.turning[name] && !t.eval.Sheds
	}
	for _, name := range t.rest.Waiting() {
		if due(name) {
			t.eval.Touch(name)
		}
	}
	for _, name := range t.eval.Touched() {
		p := t.eval.Publish(name, due(name))
		if p.Changed {
			t.p.cfg.Views.Publish(p.View, p.Nature)
		}
		t.detection.published(name, p.Changed, time.Now())
		if p.Rest {
			t.rest.Wait(name, now)
		} else {
			t.rest.Done(name)
			delete(t.turning, name)
		}
		t.watch(name, p)
	}
}

// regulate has the rest wait longer where there is more to send than can be
// sent, and says so.
func (t *term) regulate() {
	load := t.p.cfg.Views.Load()
	load.Turn = t.took
	t.mu.Lock()
	_, before := t.tempo.Sheds()
	t.tempo.Step(load)
	why, sheds := t.tempo.Sheds()
	window := t.tempo.Window()
	t.eval.Sheds = sheds
	t.mu.Unlock()
	switch {
	case sheds && !before:
		t.log.Warn("additions and planned removals wait: there is more to send than can be sent", "why", why)
	case before && !sheds:
		t.log.Info("additions and planned removals wait no longer than they should")
	}
	if !sheds {
		window = 0
	}
	if sheds || before {
		t.p.cfg.Views.Shed(window, why)
	}
}

func (t *term) named(handle uint32) (evidence.Named, bool) {
	x, ok := t.reg.ByHandle(handle)
	return evidence.Named{Handle: x.Handle, ID: x.ID, Service: x.Service}, ok
}

// keep writes segments and trims old ones, beside the seconds: a bucket that is
// slow delays none.
func (t *term) keep(ctx context.Context) {
	for written := 0; ; written++ {
		select { // the end of the term, or a full segment
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCommit)
			defer cancel()
			t.write(last)
			return
		case <-t.flush:
		}
		t.write(ctx)
		if written%(trimEvery/evidence.FlushEvery) == 0 {
			t.mu.Lock()
			now := t.eval.Now()
			t.mu.Unlock()
			if err := t.keeper.Trim(ctx, now-keptFor, keptBytes); err != nil && ctx.Err() == nil {
				t.log.Warn("cannot trim kept evidence", "error", err)
			}
		}
	}
}

// write writes a segment, if this control leads still: another's is not to be
// written over.
func (t *term) write(ctx context.Context) {
	err := t.lead.Commit(ctx, nil)
	if err == nil {
		err = t.keeper.Flush(ctx)
		t.bucketAnswers(err)
	}
	if err != nil {
		t.log.Warn("evidence is not kept yet", "error", err)
	}
}
