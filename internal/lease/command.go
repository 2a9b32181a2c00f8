package lease

// Verb says what a Command asks for.
type Verb uint8

const (
	// Grant leases one credit of Instance to Request, under Rules.
	Grant Verb = iota + 1
	// Reject answers Request without a lease, for Reason.
	Reject
	// Displace hands Request back: the table in force does not lead it to this
	// group any more. The caller chooses again and calls Rejoin.
	Displace
	// Return gives N credits of Instance back to its host.
	Return
	// Refuse tells the host that Instance refused a connection, and that N
	// credits ended with it.
	Refuse
	// Withdraw acknowledges that Instance gets no lease any more.
	Withdraw
	// Close ends every connection to Instance, whose process is gone.
	Close
	// Demand reports that N requests wait in this group and no credit is free.
	Demand
)

func (v Verb) String() string {
	return [...]string{"none", "grant", "reject", "displace", "return", "refuse", "withdraw", "close", "demand"}[v]
}

// Reason says why a request got no lease.
type Reason uint8

const (
	// Full: as many wait as may.
	Full Reason = iota + 1
	// Late: the deadline of the first byte passed in the queue.
	Late
)

func (r Reason) String() string { return [...]string{"none", "full", "deadline"}[r] }

// Command is one thing that the caller must do. Fields that the verb does not
// name are zero.
type Command struct {
	Verb     Verb
	Reason   Reason
	N        int
	Request  *Request
	Instance *Instance
	// Rules are those that a Grant was made under.
	Rules *Rules
}
