package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// scale brings every revision that the catalog refers to to the wanted number
// of instances: what is added is ready before what is too much is stopped.
func (j *job) scale() saga.Definition {
	return saga.Definition{
		Kind: service.WorkScale, Version: 1,
		Steps: []saga.StepDefinition{
			{Name: "place", Do: j.place, NoUndo: "more instances of a serving revision do no harm"},
			{Name: "ready", Do: j.placedReady, NoUndo: "it only waits"},
			{Name: "record", Do: j.recordMet, NoUndo: "it is one commit"},
			{Name: "stop", Do: j.stopSurplus, NoUndo: "what is too much is not started again"},
		},
	}
}

func (j *job) place(_ context.Context, r *saga.Run) error {
	s, w := j.snapshot(), j.world()
	n := s.Desired.Value.Instances
	added, left := 0, 0
	gone := map[string]bool{} // :: host
	for _, rev := range s.Serving() {
		for _, slot := range rev.Value.OnGone(w) {
			gone[slot.Host] = true
		}
		stays := rev.Value.LeaveGone(w)
		before := len(stays.Slots)
		placed, err := stays.Shrink(n).Grow(n, w)
		if err != nil {
			return err
		}
		added += max(n-before, 0)
		left += max(before-n, 0)
		if before != n || len(stays.Slots) != len(rev.Value.Slots) {
			r.Stage(putRevision(service.Doc[service.Revision]{Value: placed, Version: rev.Version}))
		}
	}
	r.Stage(checkDoc(service.KindCatalog, j.service, s.Catalog), checkDoc(service.KindDesired, j.service, s.Desired))
	text := fmt.Sprintf("%d wanted: %d added, %d to stop", n, added, left)
	if len(gone) > 0 {
		text += "; lost is host " + strings.Join(slices.Sorted(maps.Keys(gone)), ", ")
	}
	r.Text("%s", text)
	return nil
}

func (j *job) placedReady(ctx context.Context, r *saga.Run) error {
	for _, rev := range j.snapshot().Serving() {
		if err := j.assign(ctx, r, rev.Value, rev.Value.Lost(j.world())); err != nil {
			return err
		}
		limit := rev.Value.Template.ReadyDeadline()
		// What runs on a host that only gateways hear answers, and nothing more can be learnt of it.
		cutOff := rev.Value.OnCutOff(j.world())
		heard := slices.DeleteFunc(slices.Clone(rev.Value.Slots), func(s service.Slot) bool { return slices.Contains(cutOff, s) })
		if err := j.awaitReady(ctx, r, heard, newWatch(j.c.cfg.Dwell, rev.Value, 0), limit); err != nil {
			return err
		}
	}
	r.Text("all live for %s", j.c.cfg.Dwell)
	return nil
}

// recordMet notes the number that is ready.
func (j *job) recordMet(_ context.Context, r *saga.Run) error {
	s := j.snapshot()
	c := s.Catalog
	c.Value.Instances = s.Desired.Value.Instances
	r.Text("generation %d", r.Record.Generation)
	r.Stage(putCatalog(c), checkDoc(service.KindDesired, j.service, s.Desired))
	return nil
}

func (j *job) stopSurplus(ctx context.Context, r *saga.Run) error {
	stopped := 0
	for _, rev := range j.snapshot().Serving() {
		if len(rev.Value.Leaving) == 0 {
			continue
		}
		left, err := j.stopLeaving(ctx, rev.Value, "fewer instances are wanted")
		if err != nil {
			return err
		}
		stopped += len(rev.Value.Leaving) - len(left.Leaving)
		r.Stage(putRevision(service.Doc[service.Revision]{Value: left, Version: rev.Version}))
	}
	r.Text("%s stopped", plural(stopped, "instance"))
	return nil
}

// restart replaces every process of the serving revisions, slot by slot: the
// host has the new one live before it withdraws the old.
func (j *job) restart() saga.Definition {
	return saga.Definition{
		Kind: service.WorkRestart, Version: 1,
		Steps: []saga.StepDefinition{
			{Name: "replace", Do: j.replace, NoUndo: "a new process of the same revision is as good as the old"},
			{Name: "record", Do: j.recordRound, NoUndo: "it is one commit"},
		},
	}
}

func (j *job) replace(ctx context.Context, r *saga.Run) error {
	if r.Version() == 0 { // it is long, and who looks must see what is in progress
		if err := r.Checkpoint(ctx); err != nil {
			return err
		}
	}
	s := j.snapshot()
	round, n := s.Desired.Value.Round, 0
	for _, rev := range s.Serving() {
		rev.Value.Round = round
		for _, slot := range rev.Value.Slots {
			if err := j.replaceSlot(ctx, r, rev.Value, slot); err != nil {
				return fmt.Errorf("slot %s was not replaced: %w", slot.ID, err)
			}
			n++
		}
	}
	r.Text("%s replaced, round %d", plural(n, "instance"), round)
	return nil
}

func (j *job) replaceSlot(ctx context.Context, r *saga.Run, rev service.Revision, slot service.Slot) error {
	one := []service.Slot{slot}
	w := newWatch(j.c.cfg.Dwell, rev, rev.Round)
	if n, _ := w.ready(one, j.world()); n == 1 && j.alone(rev, slot) {
		return nil
	}
	if err := j.assign(ctx, r, rev, one); err != nil {
		return err
	}
	if err := j.awaitReady(ctx, r, one, w, rev.Template.ReadyDeadline()); err != nil {
		return err
	}
	err := j.await(ctx, r, rev.Template.ReadyDeadline(), func() (bool, time.Duration, error) { return j.alone(rev, slot), 0, nil })
	return other(err, errDeadline) // the old one drains on; its host ends it
}

// alone says that only one process of the slot takes requests.
func (j *job) alone(rev service.Revision, slot service.Slot) bool {
	n := 0
	for _, i := range rev.Processes(slot.ID, j.world()) {
		if i.State == service.InstanceLive {
			n++
		}
	}
	return n <= 1
}

func (j *job) recordRound(_ context.Context, r *saga.Run) error {
	s := j.snapshot()
	c := s.Catalog
	for _, rev := range s.Serving() {
		if rev.Value.Round < s.Desired.Value.Round {
			rev.Value.Round = s.Desired.Value.Round
			r.Stage(putRevision(rev))
		}
	}
	c.Value.Round = s.Desired.Value.Round
	r.Stage(putCatalog(c), checkDoc(service.KindDesired, j.service, s.Desired))
	r.Text("round %d", c.Value.Round)
	return nil
}
