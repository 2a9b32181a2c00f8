package agent

import (
	"sync"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// defaultAtOnce is how many requests of one workload are answered at a time.
const defaultAtOnce = 256

// bound keeps one workload from taking the agent for itself.
type bound struct {
	most int

	mu sync.Mutex
	at map[string]int // :: workload → its requests that are being answered
}

// enter lets a request in, or says why not. Who was let in leaves.
func (b *bound) enter(workload string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at[workload] >= b.most {
		return fault.New(fault.Exhausted, "ask less at once, or go by what /v1/resolve says for some moments", "%d requests of workload %s are being answered, and no more are at a time", b.most, workload)
	}
	b.at[workload]++
	return nil
}

func (b *bound) leave(workload string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at[workload]--; b.at[workload] == 0 {
		delete(b.at, workload)
	}
}
