package control

import (
	"context"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// Callers is the port to who picks instances by views, gateways among them.
type Callers interface {
	// Follows says that the published view of a service is by the routes of a
	// commit, or of a later one; or why it is not yet.
	Follows(service string, commit uint64) (why string, follows bool)
	// Withdraw says that instances leave by plan: views are to name them no more.
	Withdraw(service string, instances []string)
	// Withdrawn says that no view names them, and that every caller that is heard
	// has acknowledged such a view; or who has not.
	Withdrawn(service string, instances []string) (behind []string, done bool)
}

// nobodyCalls is the port where nobody picks by views.
type nobodyCalls struct{}

func (nobodyCalls) Follows(string, uint64) (string, bool) { return "", true }

func (nobodyCalls) Withdraw(string, []string) {}

func (nobodyCalls) Withdrawn(string, []string) ([]string, bool) { return nil, true }

const (
	// withdrawWait is the budget of the last caller in a thousand: who has not
	// acknowledged by then is not waited for.
	withdrawWait = 15 * time.Second
	withdrawLook = 50 * time.Millisecond
)

// stopWithdrawn is stopLeaving once callers pick none of what is to stop, or have
// had their time.
func (j *job) stopWithdrawn(ctx context.Context, rev service.Revision, reason string) (service.Revision, error) {
	if err := j.leaveCallers(ctx, rev); err != nil {
		return rev, err
	}
	return j.stopLeaving(ctx, rev, reason)
}

func (j *job) leaveCallers(ctx context.Context, rev service.Revision) error {
	var ids []string
	world := j.world()
	for _, s := range rev.Leaving {
		for _, i := range rev.Processes(s.ID, world) {
			if i.Host == s.Host && i.State != service.InstanceExited {
				ids = append(ids, i.ID)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	j.c.cfg.Callers.Withdraw(rev.Service, ids)
	for end := time.Now().Add(withdrawWait); ; {
		behind, done := j.c.cfg.Callers.Withdrawn(rev.Service, ids)
		switch {
		case done:
			return nil
		case time.Now().After(end):
			j.c.log.Warn("instances are stopped though not every caller has acknowledged that they leave", "service", rev.Service, "instances", len(ids), "behind", strings.Join(behind, ", "))
			return nil
		}
		pause(ctx, withdrawLook)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
