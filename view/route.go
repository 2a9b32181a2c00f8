package view

import "time"

// Route is one service's entry of the route table: the document that was
// published for it. A gateway's table is the fold of all routes.
type Route struct {
	Service string `json:"service"`
	// Revision of the document: the store's sequence of the commit that wrote
	// it. It rises with every change of this service's route.
	Sequence uint64 `json:"sequence"`
	// Deleted marks a tombstone: the service is gone, and says so.
	Deleted bool `json:"deleted,omitempty"`
	// Hosts are the host names, lower case, without port, that lead here.
	Hosts []string `json:"hosts,omitempty"`
	// Splits divide the traffic; percents add up to 100, or to 0 (all are
	// reached by their tags only), or there are none: the service exists and
	// has no traffic (answered 503).
	Splits []Split `json:"splits,omitempty"`
	Limits Limits  `json:"limits"`
}

// Split sends a share of a service's requests to a request group.
type Split struct {
	Revision string `json:"revision"`
	// Percent, 0 to 100. A split of 0 is reached by its tag only.
	Percent int `json:"percent"`
	// Group is the request group (queue) that the requests wait in.
	Group string `json:"group"`
	// Allowed are the revisions whose instances may lease from the group
	// under this table. Never empty.
	Allowed []string `json:"allowed"`
	// Minted says, for each of Allowed in its order, which life of its name is
	// meant: names begin anew when a service is made again. Missing or empty
	// means any.
	Minted []string `json:"minted,omitempty"`
	// Tag, when set, makes TAG---HOST lead to this split alone.
	Tag string `json:"tag,omitempty"`
	// Hold lets nobody lease from the group, Allowed or not: requests wait
	// while one revision gives way to another that cannot run beside it.
	Hold bool `json:"hold,omitempty"`
}

// Allows says that an instance of a revision, of one life of its name, may
// lease from the group, holds aside.
func (s Split) Allows(revision, minted string) bool {
	for i, name := range s.Allowed {
		if name == revision && (i >= len(s.Minted) || SameLife(s.Minted[i], minted)) {
			return true
		}
	}
	return false
}

// SameLife compares what identifies two lives of one name. Records and
// processes from before there were identities have none, and match any.
func SameLife(a, b string) bool { return a == b || a == "" || b == "" }

// Limits bound what waits and how long. Zero fields mean the defaults.
type Limits struct {
	// MaxWaiting requests per group; zero means 1,000.
	MaxWaiting int `json:"maxWaiting,omitempty"`
	// FirstByte is the time to the first byte of a response, time in the queue
	// included; zero means 60 s.
	FirstByte time.Duration `json:"firstByte,omitempty"`
	// Drain is how long what was leased before a handover may go on; zero means 30 s.
	Drain time.Duration `json:"drain,omitempty"`
	// Idempotent declares every method of the service safe to send again.
	Idempotent bool `json:"idempotent,omitempty"`
}

// Defaults of Limits.
const (
	DefaultMaxWaiting = 1000
	DefaultFirstByte  = 60 * time.Second
	DefaultDrain      = 30 * time.Second
)
