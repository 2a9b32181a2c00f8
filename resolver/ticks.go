package resolver

import (
	"context"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	tickEvery = time.Second
	// batchesHeld wait for a plane that does not take them; more are dropped,
	// since what is old says little.
	batchesHeld = 3
	// mostRows of a batch.
	mostRows = 20_000
)

func (r *Resolver) clock() time.Duration { return time.Since(r.began) }

func (r *Resolver) stirred() { signal(r.stir) }

// see has a view picked by that came into force.
func (r *Resolver) see(v *view.Service) {
	if p := (*r.pools.Load())[v.Name]; p != nil {
		p.take(v)
	}
}

// keepTime ends each second of every service, and works out anew the tables
// whose endpoints were set aside.
func (r *Resolver) keepTime(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select { // endpoints were set aside, a second is over, or the end
		case <-r.stir:
			for _, p := range *r.pools.Load() {
				p.remake()
			}
		case <-tick.C:
			r.tell(r.tick())
		case <-ctx.Done():
			return
		}
	}
}

func (r *Resolver) tick() (rows []*pb.OutcomeRow) {
	now := r.clock()
	for _, p := range *r.pools.Load() {
		rows = append(rows, p.tick(now)...)
	}
	return rows
}

// tell hands a second's rows to whoever reports. What does not fit is dropped
// and counted: nobody waits for it.
func (r *Resolver) tell(rows []*pb.OutcomeRow) {
	for len(rows) > 0 {
		n := min(len(rows), mostRows)
		select {
		case r.batches <- &pb.ReportOutcomesRequest{Rows: rows[:n], Zone: r.cfg.Zone, Revision: r.cfg.Revision}:
		default:
			r.drop(n)
		}
		rows = rows[n:]
	}
}
