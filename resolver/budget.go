package resolver

import (
	"fmt"
	"math"
	"sync/atomic"
)

// RetryBudget bounds how many requests to a service are retries, so that
// retries cannot make an overload worse. Zero fields mean the defaults.
type RetryBudget struct {
	// Share of the requests of a second that may be retries in the next; zero means 0.2.
	Share float64
	// Floor of retries a second, whatever the requests; zero means 10.
	Floor int
}

func (b *RetryBudget) fill() {
	if b.Share == 0 {
		b.Share = 0.2
	}
	if b.Floor == 0 {
		b.Floor = 10
	}
}

func (b *RetryBudget) check() error {
	if b.Share < 0 || b.Share > 1 || b.Floor < 0 {
		return fmt.Errorf("%w: RetryBudget has a negative field, or a share above 1", ErrConfig)
	}
	return nil
}

// savedFor is for how many seconds what was not used may be used later.
const savedFor = 10

// budget of one service: tokens that each second's requests bring.
type budget struct {
	rules  RetryBudget
	tokens atomic.Int64 // thousandths
}

func newBudget(rules RetryBudget) *budget {
	b := &budget{rules: rules}
	b.tokens.Store(int64(rules.Floor) * savedFor * 1000)
	return b
}

// earn what a second with so many requests brings. What is saved is bounded by
// the floor's and by what such seconds bring.
func (b *budget) earn(requests uint64) {
	brings := int64(b.rules.Floor)*1000 + int64(math.Min(float64(requests)*b.rules.Share*1000, math.MaxInt32))
	for {
		had := b.tokens.Load()
		if b.tokens.CompareAndSwap(had, min(had+brings, brings*savedFor)) {
			return
		}
	}
}

// take one retry, if there is one.
func (b *budget) take() bool {
	if b.tokens.Add(-1000) >= 0 {
		return true
	}
	b.tokens.Add(1000)
	return false
}
