package control

import (
	"context"
	"errors"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
)

// errDeadline ends a wait whose condition did not come true in time.
var errDeadline = errors.New("deadline passed")

// condition is looked at whenever something may have changed. It says whether
// it holds, and, where it can tell, after how long to look again.
type condition func() (holds bool, again time.Duration, err error)

// await waits until the condition holds, or returns errDeadline, the
// condition's error, why the run is interrupted, or ctx's error. A nil run is
// not interrupted: what puts things back is not ended by a later intent.
func (j *job) await(ctx context.Context, r *saga.Run, limit time.Duration, holds condition) error {
	end := time.Now().Add(limit)
	for {
		hosts, gateways, verdicts := j.c.cfg.Hosts.Changed(), j.c.cfg.Gateways.Changed(), j.c.cfg.Verdicts.Changed()
		records := j.mirror.serviceChanged(j.service)
		if err := ctx.Err(); err != nil {
			return err
		}
		if r != nil {
			if err := r.Interrupted(); err != nil {
				return err
			}
		}
		ok, again, err := holds()
		if ok || err != nil {
			return err
		}
		left := time.Until(end)
		if left <= 0 {
			return errDeadline
		}
		if again <= 0 || again > settleEvery*5 {
			again = settleEvery * 5
		}
		timer := time.NewTimer(min(again, left))
		// One of: a host or gateway said something, a verdict or the service's
		// records changed, it is time to look again, the term ended.
		select {
		case <-hosts:
		case <-gateways:
		case <-verdicts:
		case <-records:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
