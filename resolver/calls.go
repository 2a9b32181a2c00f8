package resolver

import "sync/atomic"

// callCount counts calls since the resolver was opened: those that ended are counted each second,
// those that had nowhere to go at once.
type callCount struct{ good, failed, unroutable atomic.Uint64 }

func (c *callCount) ended(good, failed uint64) {
	if c != nil {
		c.good.Add(good)
		c.failed.Add(failed)
	}
}

func (c *callCount) refused() {
	if c != nil {
		c.unroutable.Add(1)
	}
}

// since the resolver was opened, as the plane is told after it was away.
func (c *callCount) since() (all, failed, unroutable uint64) {
	failed, unroutable = c.failed.Load(), c.unroutable.Load()
	return c.good.Load() + failed + unroutable, failed, unroutable
}
