package gateway

import "strconv"

// sum is one group's state in numbers.
type sum struct {
	service, group           string
	waiting, leases, credits int
}

func (rm *room) sums() []sum {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	out := make([]sum, 0, len(rm.shards))
	for k, sh := range rm.shards {
		sh.mu.Lock()
		s := sum{service: k.Service, group: k.Group, waiting: sh.q.Waiting()}
		for _, in := range sh.q.Instances() {
			s.leases += in.InUse()
			s.credits += in.Owned()
		}
		sh.mu.Unlock()
		out = append(out, s)
	}
	return out
}

func uitoa(n uint64) string { return strconv.FormatUint(n, 10) }
