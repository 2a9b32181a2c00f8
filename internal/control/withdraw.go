package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Callers is the port to who picks instances by views.
type Callers interface {
	// Follows says that the published view of a service is by the routes of a
	// commit, or of a later one; or why it is not yet.
	Follows(service string, commit uint64) (why string, follows bool)
	// Withdraw says that instances leave by plan: views are to name them no more.
	Withdraw(service string, instances []string)
	// MayPick are the callers who may still pick one of the instances by the views
	// that they hold.
	MayPick(service string, instances []string) routing.Pickers
}

// nobodyCalls is the port where nobody picks by views.
type nobodyCalls struct{}

func (nobodyCalls) Follows(string, uint64) (string, bool) { return "", true }

func (nobodyCalls) Withdraw(string, []string) {}

func (nobodyCalls) MayPick(string, []string) routing.Pickers { return routing.Pickers{} }

const (
	withdrawLook = 50 * time.Millisecond
	manyCallers  = 2000 // of whom all are looked at each time
)

// stopWithdrawn is stopLeaving once callers pick none of what is to stop, or have
// had their time. A nil run is not interrupted meanwhile.
func (j *job) stopWithdrawn(ctx context.Context, r *saga.Run, rev service.Revision, reason string) (service.Revision, error) {
	world := j.world()
	var all []service.Instance
	for _, s := range rev.Leaving {
		all = append(all, slices.DeleteFunc(slices.Clone(rev.Processes(s.ID, world)), func(i service.Instance) bool { return i.Host != s.Host })...)
	}
	if err := j.leaveCallers(ctx, r, all, reason); err != nil {
		return rev, err
	}
	return j.stopLeaving(ctx, rev, reason)
}

// leaveCallers has instances that are to stop leave the views, and waits until no
// caller may pick one of them any more, for as long as callers have for that: one
// that never acknowledges must not hold a stop for ever.
func (j *job) leaveCallers(ctx context.Context, r *saga.Run, all []service.Instance, reason string) error {
	var ids []string
	for _, i := range all {
		if i.State != service.InstanceExited {
			ids = append(ids, i.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	stop := service.StopWait{Instances: ids, Reason: reason, Until: time.Now().Add(routing.Grace)}
	defer j.stops.end(j.service, ids[0])
	var next time.Time // look: much else wakes this wait
	err := j.await(ctx, r, routing.Grace, func() (bool, time.Duration, error) {
		if left := time.Until(next); left > 0 {
			return false, left, nil
		}
		j.c.cfg.Callers.Withdraw(j.service, ids) // again, as a plane that has not begun does not hear it
		stop.For = j.c.cfg.Callers.MayPick(j.service, ids)
		if stop.For.Nobody() {
			return true, 0, nil
		}
		j.stops.set(j.service, stop)
		look := withdrawLook
		if stop.For.Among > manyCallers {
			look *= 5
		}
		next = time.Now().Add(look)
		return false, look, nil
	})
	if !errors.Is(err, errDeadline) {
		return err
	}
	j.c.log.Warn("instances are stopped though not every caller has acknowledged that they leave", "service", j.service, "instances", len(ids), "behind", stop.For.Text())
	return nil
}
