package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// scale brings every revision that the catalog refers to to the wanted number
// of instances, none of them on a host that is gone or drains: what is added is
// ready before what is too much is stopped. What cannot run beside another is
// the exception: under a hold it stops first.
func (j *job) scale() saga.Definition {
	return saga.Definition{
		Kind: service.WorkScale, Version: 1,
		Steps: []saga.StepDefinition{
			{Name: "place", Do: j.place, Stands: j.placeStands, NoUndo: "more instances of a serving revision do no harm"},
			{Name: "ready", Do: j.placedReady, Stands: j.placedStillReady, NoUndo: "it only waits"},
			{Name: "record", Do: j.recordMet, NoUndo: "it is one commit"},
			{Name: "stop", Do: j.stopSurplus, NoUndo: "what is too much is not started again"},
		},
	}
}

func (j *job) place(ctx context.Context, r *saga.Run) error {
	s, w := j.snapshot(), j.world()
	n := s.Desired.Value.Instances
	added, left := 0, 0
	gone, drains := map[string]bool{}, map[string]bool{} // :: host
	for _, rev := range s.Serving() {
		for _, slot := range rev.Value.OnGone(w) {
			gone[slot.Host] = true
		}
		for _, slot := range rev.Value.OnDraining(w) {
			drains[slot.Host] = true
		}
		placed, err := rev.Value.Resize(n, w)
		if err != nil {
			return j.cannotPlace(ctx, r, err)
		}
		before := len(rev.Value.LeaveGone(w).Staying(w))
		added += max(n-before, 0)
		left += max(before-n, 0) + len(rev.Value.OnDraining(w))
		next := service.Doc[service.Revision]{Value: placed, Version: rev.Version}
		switch {
		case rev.Value.Exclusive() && len(rev.Value.OnDraining(w)) > 0:
			if err := j.moveAlone(ctx, r, next, n); err != nil {
				return err
			}
		case !slices.Equal(placed.Slots, rev.Value.Slots) || len(placed.Leaving) != len(rev.Value.Leaving):
			r.Stage(putRevision(next))
		}
	}
	r.Stage(checkDoc(service.KindCatalog, j.service, s.Catalog), checkDoc(service.KindDesired, j.service, s.Desired))
	text := fmt.Sprintf("%d wanted: %d added, %d to stop", n, added, left)
	if len(gone) > 0 {
		text += "; lost is host " + strings.Join(slices.Sorted(maps.Keys(gone)), ", ")
	}
	for _, host := range slices.Sorted(maps.Keys(drains)) {
		text += fmt.Sprintf("; host %s: %s", host, w.Drains(host))
	}
	r.Text("%s", text)
	return nil
}

// cannotPlace has a saga that somebody waits for exist, so that it says why it
// failed. Without one it is tried again at each pass.
func (j *job) cannotPlace(ctx context.Context, r *saga.Run, why error) error {
	asked := j.snapshot().Catalog.Value.ObservedGeneration < r.Record.Generation
	if r.Version() > 0 || !asked || !errors.Is(why, service.ErrNoRoom) {
		return why
	}
	return errors.Join(r.Checkpoint(ctx), why)
}

// placeStands says that what was placed is still what is to be.
func (j *job) placeStands(context.Context, *saga.Run) (bool, error) {
	s, w := j.snapshot(), j.world()
	for _, rev := range s.Serving() {
		if len(rev.Value.OnGone(w)) > 0 || len(rev.Value.Staying(w)) != s.Desired.Value.Instances {
			return false, nil
		}
	}
	return true, nil
}

// toBeReady are the slots that are to stay. What runs on a host that only
// gateways hear answers, and nothing more can be learnt of it.
func toBeReady(rev service.Revision, w *service.World) []service.Slot {
	cutOff := rev.OnCutOff(w)
	return slices.DeleteFunc(slices.Clone(rev.Staying(w)), func(s service.Slot) bool { return slices.Contains(cutOff, s) })
}

func (j *job) placedReady(ctx context.Context, r *saga.Run) error {
	for _, rev := range j.snapshot().Serving() {
		w := j.world()
		if err := j.assign(ctx, r, rev.Value, rev.Value.Lost(w)); err != nil {
			return err
		}
		if err := j.awaitReady(ctx, r, toBeReady(rev.Value, w), j.judged(rev.Value, 0, true), rev.Value.Template.ReadyDeadline()); err != nil {
			return err
		}
	}
	r.Text("all live for %s", j.c.cfg.Dwell)
	return nil
}

func (j *job) placedStillReady(context.Context, *saga.Run) (bool, error) {
	w := j.world()
	for _, rev := range j.snapshot().Serving() {
		slots := toBeReady(rev.Value, w)
		if n, _ := j.judged(rev.Value, 0, true).ready(slots, w); n < len(slots) {
			return false, nil
		}
	}
	return true, nil
}

// recordMet notes the number that is ready, and that what drains is to leave.
func (j *job) recordMet(ctx context.Context, r *saga.Run) error {
	if err := j.endHold(ctx, r); err != nil {
		return err
	}
	s, w := j.snapshot(), j.world()
	n := s.Desired.Value.Instances
	for _, rev := range s.Serving() {
		if shed := rev.Value.Shed(n, w); len(shed.Leaving) != len(rev.Value.Leaving) {
			r.Stage(putRevision(service.Doc[service.Revision]{Value: shed, Version: rev.Version}))
		}
	}
	c := s.Catalog
	c.Value.Instances = n
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
		left, err := j.stopWithdrawn(ctx, r, rev.Value, "it is not wanted there any more")
		if err != nil {
			return err
		}
		stopped += len(rev.Value.Leaving) - len(left.Leaving)
		r.Stage(putRevision(service.Doc[service.Revision]{Value: left, Version: rev.Version}))
	}
	r.Text("%s stopped", plural(stopped, "instance"))
	return nil
}

// restart replaces every process of the serving revisions, slot by slot, the worst
// by their verdicts first: the new one is live before the old is withdrawn. A slot that the spreading rule
// would place on another host is placed there.
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
		if err := j.spreadOut(ctx, r, rev.Value.Name, round); err != nil {
			return fmt.Errorf("%s was not spread over the hosts: %w", rev.Value.Name, err)
		}
		rev = j.snapshot().Revision(rev.Value.Name)
		rev.Value.Round = round
		for left := rev.Value.Slots; len(left) > 0; n++ {
			left = rev.Value.WorstFirst(left, j.world())
			if err := j.replaceSlot(ctx, r, rev.Value, left[0]); err != nil {
				return fmt.Errorf("slot %s was not replaced: %w", left[0].ID, err)
			}
			left = left[1:]
		}
	}
	r.Text("%s replaced, round %d", plural(n, "instance"), round)
	return nil
}

// spreadOut has slots that gathered on a host move to where the spreading rule
// places them, one after the other, each new one ready before the old is withdrawn.
func (j *job) spreadOut(ctx context.Context, r *saga.Run, name string, round int32) error {
	for range j.snapshot().Revision(name).Value.Slots {
		rev, w := j.snapshot().Revision(name), j.world()
		moves := rev.Value.Gathered(w)
		if len(moves) == 0 {
			return nil
		}
		if err := j.moveSlot(ctx, r, rev, moves[0], round); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) moveSlot(ctx context.Context, r *saga.Run, rev service.Doc[service.Revision], old service.Slot, round int32) error {
	is := func(s service.Slot) bool { return s.ID == old.ID }
	less := rev.Value
	less.Slots = slices.DeleteFunc(slices.Clone(less.Slots), is)
	placed, err := less.Grow(len(rev.Value.Slots), j.world())
	if err != nil {
		return err
	}
	taken := placed.Slots[len(placed.Slots)-1]
	placed.Slots = append(placed.Slots, old)
	r.Stage(putRevision(service.Doc[service.Revision]{Value: placed, Version: rev.Version}))
	if err := r.Checkpoint(ctx); err != nil {
		return err
	}
	placed.Round = round
	if err := j.assign(ctx, r, placed, []service.Slot{taken}); err != nil {
		return err
	}
	if err := j.awaitReady(ctx, r, []service.Slot{taken}, j.judged(placed, round, true), placed.Template.ReadyDeadline()); err != nil {
		return err
	}
	rev = j.snapshot().Revision(placed.Name)
	rev.Value.Slots = slices.DeleteFunc(slices.Clone(rev.Value.Slots), is)
	rev.Value.Leaving = append(slices.Clone(rev.Value.Leaving), old)
	r.Stage(putRevision(rev))
	if err := r.Checkpoint(ctx); err != nil {
		return err
	}
	rev = j.snapshot().Revision(placed.Name)
	left, err := j.stopWithdrawn(ctx, r, rev.Value, "it moves to host "+taken.Host)
	if err != nil {
		return err
	}
	rev.Value = left
	r.Stage(putRevision(rev))
	return r.Checkpoint(ctx)
}

// untilTold is a dwell that no process reaches.
const untilTold = 100 * 365 * 24 * time.Hour

func (j *job) replaceSlot(ctx context.Context, r *saga.Run, rev service.Revision, slot service.Slot) error {
	one := []service.Slot{slot}
	w := j.judged(rev, rev.Round, true)
	if n, _ := w.ready(one, j.world()); n == 1 && j.alone(rev, slot) {
		return nil
	}
	// Its host has the old process beside the new one until it is told otherwise:
	// it knows not who picks it still, however long nobody is heard who does.
	if err := j.assignFor(ctx, r, rev, one, untilTold); err != nil {
		return err
	}
	if err := j.awaitReady(ctx, r, one, w, rev.Template.ReadyDeadline()); err != nil {
		return err
	}
	if err := j.leaveCallers(ctx, r, earlier(rev, slot, j.world()), "its slot is restarted"); err != nil {
		return err
	}
	if err := j.assign(ctx, r, rev, one); err != nil {
		return err
	}
	err := j.await(ctx, r, rev.Template.ReadyDeadline(), func() (bool, time.Duration, error) { return j.alone(rev, slot), 0, nil })
	return other(err, errDeadline) // the old one drains on; its host ends it
}

// earlier are the processes of a slot that are of a round before its revision's.
func earlier(rev service.Revision, slot service.Slot, w *service.World) []service.Instance {
	return slices.DeleteFunc(slices.Clone(rev.Processes(slot.ID, w)), func(i service.Instance) bool {
		return i.Round >= rev.Round || i.Host != slot.Host
	})
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
