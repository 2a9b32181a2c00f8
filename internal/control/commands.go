package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// each calls f for every item at once, and joins the errors in the items' order.
func each[T any](items []T, f func(T) error) error {
	errs := make([]error, len(items))
	var wait sync.WaitGroup
	for i, item := range items {
		wait.Add(1)
		go func() {
			defer wait.Done()
			errs[i] = f(item)
		}()
	}
	wait.Wait()
	return errors.Join(errs...)
}

// ask gives a host a command. Where it cannot be said whether the host did it,
// the host is waited for, for a while, and asked again: commands are
// idempotent, and the later answer settles it. A nil run asks once.
func (j *job) ask(ctx context.Context, r *saga.Run, host string, wait time.Duration, command func(context.Context) error) error {
	var end time.Time // of the patience with the host
	for {
		err := j.askOnce(ctx, r, wait, command)
		if r == nil || !unsure(err) || ctx.Err() != nil {
			return err
		}
		if end.IsZero() {
			end = time.Now().Add(hostPatience)
		}
		pause(ctx, retryOfUnsure)
		heard := j.await(ctx, r, time.Until(end), func() (bool, time.Duration, error) { return j.world().Hosts[host].Heard(), 0, nil })
		if errors.Is(heard, errDeadline) {
			return err
		}
		if heard != nil {
			return heard
		}
	}
}

// unsure says that the host may answer otherwise when it is asked again.
func unsure(err error) bool {
	return errors.Is(err, fault.Unknown) || errors.Is(err, fault.Unavailable)
}

// askOnce gives up the wait for the answer as soon as the run is interrupted.
func (j *job) askOnce(ctx context.Context, r *saga.Run, wait time.Duration, command func(context.Context) error) error {
	once, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if r == nil {
		return command(once)
	}
	var interrupted error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		never := func() (bool, time.Duration, error) { return false, 0, nil }
		if interrupted = j.await(once, r, wait, never); once.Err() != nil || errors.Is(interrupted, errDeadline) {
			interrupted = nil
		}
		if interrupted != nil {
			cancel()
		}
	}()
	err := command(once)
	cancel()
	<-ended
	return cmp.Or(interrupted, err)
}

// prepare has every host of the slots fetch and check what is to run there.
func (j *job) prepare(ctx context.Context, r *saga.Run, rev service.Revision) error {
	var hosts []string
	for _, s := range rev.Slots {
		if !slices.Contains(hosts, s.Host) {
			hosts = append(hosts, s.Host)
		}
	}
	return each(hosts, func(host string) error {
		err := j.ask(ctx, r, host, prepareWait, func(ctx context.Context) error {
			return j.c.cfg.Hosts.Prepare(ctx, j.led.Epoch(), host, rev.Name, rev.Template)
		})
		if errors.Is(err, fault.Exhausted) {
			j.refuses(host, err)
		}
		if err != nil {
			return fmt.Errorf("host %s cannot run it: %w", host, err)
		}
		return nil
	})
}

// assign asks for the slots to be kept running, by the revision's round.
func (j *job) assign(ctx context.Context, r *saga.Run, rev service.Revision, slots []service.Slot) error {
	return j.assignFor(ctx, r, rev, slots, j.c.cfg.Dwell)
}

// assignFor is assign; a process of an earlier round stays until the new one has
// been live for so long.
func (j *job) assignFor(ctx context.Context, r *saga.Run, rev service.Revision, slots []service.Slot, dwell time.Duration) error {
	return each(slots, func(s service.Slot) error {
		err := j.ask(ctx, r, s.Host, commandWait, func(ctx context.Context) error {
			return j.c.cfg.Hosts.Assign(ctx, j.led.Epoch(), s.Host, rev.Assignment(s.ID, dwell))
		})
		if err != nil {
			return fmt.Errorf("host %s did not take slot %s: %w", s.Host, s.ID, err)
		}
		return nil
	})
}

// stopLeaving tells the hosts of the revision's leaving slots to stop them, and
// returns the revision without those that are stopped for sure. A host that
// cannot be reached keeps its slots in Leaving, for a later pass; it is an
// error only where it was heard just now. Nobody waits for one that was retired:
// should it return, what it runs is found to be nobody's.
func (j *job) stopLeaving(ctx context.Context, rev service.Revision, reason string) (service.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	world := j.world()
	var mu sync.Mutex
	var stopped []string
	err := each(rev.Leaving, func(s service.Slot) error {
		connected := world.Hosts[s.Host].Connected
		if !connected && !world.IsRetired(s.Host) {
			return nil
		}
		if connected {
			err := j.c.cfg.Hosts.Stop(ctx, j.led.Epoch(), s.Host, service.Stop{Slot: s.ID, Minted: rev.Minted, Drain: rev.Template.DrainTime(), Reason: reason})
			if err != nil {
				return fmt.Errorf("host %s did not take the stop of slot %s: %w", s.Host, s.ID, err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		stopped = append(stopped, s.ID)
		return nil
	})
	for _, id := range stopped {
		rev = rev.Forget(id)
	}
	return rev, err
}

// watch follows whether slots are ready: live for the dwell without a break and
// without a restart. Nothing is latched: what was ready and is not live any
// more begins anew.
type watch struct {
	dwell time.Duration
	rev   service.Revision // whose processes count
	round int32
	since map[string]livesSince // :: slot → since when its instance has been live
	// lines :: slot → the last output that was told of a process in it: one that
	// fails again and again is mostly seen between two of its ends, with none.
	lines map[string][]string
	// believed is what an instance waits for besides; nil is nothing.
	believed func(instance string) (ok bool, why string)
	// patience is after how long beyond the dwell an instance is ready whatever is
	// believed of it; zero waits for ever.
	patience time.Duration
	why      map[string]string // :: slot → why its instance is not believed
}

type livesSince struct {
	id    string
	since time.Time
}

func newWatch(dwell time.Duration, rev service.Revision, round int32) *watch {
	return &watch{dwell: dwell, rev: rev, round: round, since: map[string]livesSince{}, lines: map[string][]string{}}
}

// judged is a watch that waits for each instance's verdict too: to be ready,
// or, once, to have been. What moves traffic to who is there waits for none: it
// takes the best that there is.
func (j *job) judged(rev service.Revision, round int32, once bool) *watch {
	w := newWatch(j.c.cfg.Dwell, rev, round)
	w.why = map[string]string{}
	w.believed = func(instance string) (bool, string) {
		v := j.c.cfg.Verdicts.Of(rev.Service, instance)
		return v.Ready || once && v.Before, v.Why
	}
	return w
}

// putBackPatience is how long what is started again after a failure waits for its
// verdict: requests are held meanwhile.
const putBackPatience = 15 * time.Second

// putting back waits for verdicts as a deploy does, but not for long: then the
// best that there is answers.
func (j *job) puttingBack(rev service.Revision) *watch {
	w := j.judged(rev, 0, false)
	w.patience = putBackPatience
	return w
}

// ready says how many of the slots are, and when the next may be.
func (w *watch) ready(slots []service.Slot, world *service.World) (n int, again time.Duration) {
	for _, s := range slots {
		if i, ok := newest(w.rev.Processes(s.ID, world)); ok && len(i.LastLines) > 0 {
			w.lines[s.ID] = i.LastLines
		}
		live, ok := liveIn(w.rev.Processes(s.ID, world), s.Host, w.round)
		if h := world.Hosts[s.Host]; !ok || !h.Heard() {
			delete(w.since, s.ID)
			continue
		}
		seen, known := w.since[s.ID]
		if !known || seen.id != live.ID {
			seen = livesSince{id: live.ID, since: time.Now().Add(-live.LiveFor)}
			w.since[s.ID] = seen
		}
		left := w.dwell - max(time.Since(seen.since), live.LiveFor)
		if left <= 0 {
			if left += w.patience; w.believes(s, live) || w.patience > 0 && left <= 0 {
				n++
				continue
			}
		}
		if left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	return n, again
}

func (w *watch) believes(s service.Slot, i service.Instance) bool {
	if w.believed == nil {
		return true
	}
	ok, why := w.believed(i.ID)
	w.why[s.ID] = why
	if ok {
		delete(w.why, s.ID)
	}
	return ok
}

// liveIn is the slot's live instance of the round or a later one.
func liveIn(list []service.Instance, host string, round int32) (service.Instance, bool) {
	for _, i := range list {
		if i.State == service.InstanceLive && i.Host == host && i.Round >= round {
			return i, true
		}
	}
	return service.Instance{}, false
}

// awaitReady waits until every slot is ready, or says why one is not.
func (j *job) awaitReady(ctx context.Context, r *saga.Run, slots []service.Slot, w *watch, limit time.Duration) error {
	var world *service.World
	err := j.await(ctx, r, limit, func() (bool, time.Duration, error) {
		world = j.world()
		n, again := w.ready(slots, world)
		if n == len(slots) {
			return true, 0, nil
		}
		return false, again, w.fatal(slots, world)
	})
	if !errors.Is(err, errDeadline) {
		return err
	}
	n, _ := w.ready(slots, world)
	return w.notReady(slots, world, fmt.Sprintf("%d of %d instances stayed live for %s within %s", n, len(slots), w.dwell, limit.Round(time.Second)))
}

// fatal finds an instance that no waiting will help: its host says so, or is lost.
func (w *watch) fatal(slots []service.Slot, world *service.World) error {
	for _, s := range slots {
		if world.Lost(s.Host) {
			return &saga.Failure{Reason: fmt.Sprintf("host %s of slot %s is lost", s.Host, s.ID), LastLines: w.lines[s.ID]}
		}
		for _, i := range w.rev.Processes(s.ID, world) {
			if strings.HasPrefix(i.Detail, "cannot exec") || strings.HasPrefix(i.Detail, "fatal:") {
				return &saga.Failure{Reason: describe(s, i), LastLines: i.LastLines}
			}
		}
	}
	return nil
}

// notReady says of the first slot that is not ready what is known of it.
func (w *watch) notReady(slots []service.Slot, world *service.World, reason string) error {
	for _, s := range slots {
		if seen, ok := w.since[s.ID]; ok && time.Since(seen.since) >= w.dwell {
			if why := w.why[s.ID]; why != "" {
				return &saga.Failure{Reason: fmt.Sprintf("%s and became eligible: instance %s in slot %s on host %s is live, and %s", reason, seen.id, s.ID, s.Host, why), LastLines: w.lines[s.ID]}
			}
			continue
		}
		i, ok := newest(w.rev.Processes(s.ID, world))
		if !ok {
			return &saga.Failure{Reason: fmt.Sprintf("%s: host %s reports no instance in slot %s", reason, s.Host, s.ID)}
		}
		return &saga.Failure{Reason: reason + ": " + describe(s, i), LastLines: w.lines[s.ID]}
	}
	return &saga.Failure{Reason: reason}
}

// newest is the instance that says most: the last process of the slot.
func newest(list []service.Instance) (service.Instance, bool) {
	if len(list) == 0 {
		return service.Instance{}, false
	}
	return slices.MaxFunc(list, func(a, b service.Instance) int { return a.Restarts - b.Restarts }), true
}

func describe(s service.Slot, i service.Instance) string {
	text := fmt.Sprintf("instance %s in slot %s on host %s is %s", i.ID, s.ID, s.Host, i.State)
	if i.Restarts > 0 {
		text += fmt.Sprintf(" after %d restarts", i.Restarts)
	}
	if i.ExitStatus != "" {
		text += ", " + i.ExitStatus
	}
	if i.Detail != "" {
		text += ": " + i.Detail
	}
	return text
}
