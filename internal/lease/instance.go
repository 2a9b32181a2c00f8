package lease

// State of an instance, as this gateway sees it.
//
//	Live ──terminating──► Terminating ──gone──► Gone
//	 │ ▲                                         ▲
//	 │ └──offered──┐                             │
//	 └──refused──► Refused ──────────gone────────┘
type State uint8

const (
	// Live may be leased where its revision is allowed.
	Live State = iota
	// Refused refused a connection, and is not used until it is offered again.
	Refused
	// Terminating was withdrawn, for good.
	Terminating
	// Gone: its process ended; what it still holds ends without a trace.
	Gone
)

func (s State) String() string { return [...]string{"live", "refused", "terminating", "gone"}[s] }

// Instance is one process that may answer. The queue owns it; callers read it.
type Instance struct {
	ID, Revision string
	// Minted is which life of the revision's name it is of; empty means any.
	Minted string
	// Owner is the caller's own.
	Owner any

	state State
	// owned credits, those in use included; inUse counts leases, and exceeds
	// owned only once the instance is gone.
	owned, inUse int
	// owed is what a recall asked for beyond the idle credits: given back as
	// leases end, before anyone who waits.
	owed int
	// open says that it may be leased: it is live, its revision is allowed, and
	// its view does not say that it is out, or says so of all.
	open bool
	// weight and rank are its standing, as far as it counts.
	weight int
	rank   rank
	// turn grows with each lease that goes elsewhere while its weight is below
	// another's.
	turn uint64
}

// State of the instance.
func (in *Instance) State() State { return in.state }

// Owned counts its credits here, those in use included.
func (in *Instance) Owned() int { return in.owned }

// InUse counts its leases.
func (in *Instance) InUse() int { return in.inUse }

// Open says that it may be leased.
func (in *Instance) Open() bool { return in.open }

func (in *Instance) idle() int { return max(0, in.owned-in.inUse) }

// lessBusy compares in-use/share without dividing.
func (in *Instance) lessBusy(o *Instance) bool {
	return uint64(in.inUse)*o.share() < uint64(o.inUse)*in.share()
}
