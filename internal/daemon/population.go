package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/admission"
	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// beside runs what runs while this control leads: the discovery plane, and what
// remembers how many subscribers there are.
func (c *controlRole) beside(ctx context.Context, l control.Lead) {
	known := c.recall(ctx)
	c.views.Remember(known)
	var remembering sync.WaitGroup
	defer remembering.Wait()
	remembering.Go(func() { c.remember(ctx, l, known) })
	c.discovery.Run(ctx, l)
}

// population is the record by which the number of subscribers outlives a
// restart: they all come back at once then.
type population struct {
	Subscribers int `json:"subscribers"`
}

var populationKey = store.Key{Kind: service.KindPopulation, Name: "subscribers"}

// recall is how many there were known to be; 0 where it is not known.
func (c *controlRole) recall(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	d, err := c.store.Get(ctx, populationKey)
	if errors.Is(err, store.ErrNotFound) {
		return 0
	}
	var p population
	if err == nil {
		err = json.Unmarshal(d.Body, &p)
	}
	if err != nil && ctx.Err() == nil {
		c.p.log.Warn("it is not known how many subscribers there are: as few as there can be are let in at once", "error", err)
	}
	return max(0, p.Subscribers)
}

// rememberEvery bounds how often the number is written.
const rememberEvery = 10 * time.Second

// remember writes the number when it is another by a twentieth. Those whose
// number changes nothing about how they are let in are not written.
func (c *controlRole) remember(ctx context.Context, l control.Lead, written int) {
	for sleep(ctx, rememberEvery) {
		now := c.views.Population()
		if admission.Limit(now) == admission.Limit(written) || 20*abs(now-written) < written {
			continue
		}
		if err := c.writePopulation(ctx, l, now); err != nil {
			c.p.log.Warn("cannot record how many subscribers there are", "error", err)
			continue
		}
		written = now
	}
}

func (c *controlRole) writePopulation(ctx context.Context, l control.Lead, n int) error {
	body, err := json.Marshal(population{n})
	if err != nil {
		return fmt.Errorf("cannot encode the population: %w", err)
	}
	return l.Commit(ctx, []store.Write{{Key: populationKey, Any: true, Body: body}})
}

func abs(n int) int { return max(n, -n) }
