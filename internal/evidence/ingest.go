package evidence

import (
	"sync"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// Bounds on what one witness may say in one batch.
const (
	// Cap is how many of a reporter's results about one instance count in a
	// second: volume buys no weight beyond it.
	Cap = 20
	// maxCount is the most results of a row that can be honest.
	maxCount = 1 << 20
	// MaxRows of a batch; a longer one is refused whole.
	MaxRows = 20_000
	// cleanRun is how many seconds of clean running are sealed as one row.
	cleanRun = 10
	// hurtBy is by how much a reporter must fare worse at an instance than at
	// its siblings to be counted among the hurt, in thousandths.
	hurtBy = 100
)

// Instance is what the ingest knows of one: which service it belongs to, and
// who may look at it.
type Instance struct {
	Handle  uint32
	ID      string
	Service string
	Profile eligibility.Profile
	// Probers that are assigned to it, by handle, and those that were until
	// the assignment before.
	Probers, Before []uint32
}

// Ingest takes evidence in. All its methods may be called by several at once.
type Ingest struct {
	mu        sync.Mutex
	instances map[uint32]*open    // :: instance's handle → its open row
	services  map[string]*service // :: name → service, while it has instances
	dirty     []*open             // rows with something in them
	refused   []*open             // rows with a refusal in them that [Ingest.SealEarly] did not look at
	early     []TickRow           // rows of this second that are sealed already
	watches   map[uint32]*eligibility.Watch
	interval  int // seconds between one prober's looks
	tick      int64
	batches   uint64     // of outcomes, two passes each
	called    []*service // in this second, by callers that are told apart
	found     []found    // of the batch in hand; kept to be used again
	crowded   uint64
	discarded map[Reason]uint64
	bytes     map[string]uint64 // :: class → bytes as they came
}

// open is an instance's row of the second that is not sealed yet, and the clean
// running before it.
type open struct {
	// What a row of outcomes touches comes first, so that it is little memory.
	row     eligibility.Outcomes // of this second, but for parts
	pass    uint64               // over a batch of outcomes that named it last
	service *service
	early   int64        // the last tick that was sealed early: what comes then is of the next
	parts   [kinds]parts // of those most of whose results failed: each all that they saw
	heard   bool         // its profile has outcomes
	dirty   bool
	refused bool // it is among those with a refusal

	Instance
	out      *eligibility.Charged // what is left out of row, as it is sealed
	clean    eligibility.Outcomes // of the clean seconds before it
	probes   []eligibility.Probe
	well     []uint32 // probers whose last look that was sealed was good
	self     *eligibility.Self
	selfTold eligibility.Self
	selfAt   int64
	cleanAt  int64 // the tick from which clean running is held back; 0 is none
}

// service numbers the services, so that a reporter's sums need no strings.
type service struct {
	name      string
	instances int
	now       fare            // of the second that is not sealed yet, by all reporters
	groups    [kinds][]*group // of its callers, in the last seconds
	unnamed   [kinds]int64    // when one of no name called last
	called    int64           // the last tick in which callers are told apart
}

// New makes an ingest whose next tick is the one after last.
func New(last int64, probeInterval int) *Ingest {
	return &Ingest{
		instances: map[uint32]*open{}, services: map[string]*service{}, watches: map[uint32]*eligibility.Watch{}, interval: probeInterval, tick: last + 1,
		discarded: map[Reason]uint64{}, bytes: map[string]uint64{},
	}
}

// Know enters an instance, or what is new about it.
func (in *Ingest) Know(x Instance) {
	in.mu.Lock()
	defer in.mu.Unlock()
	o := in.instances[x.Handle]
	if o == nil {
		o = &open{service: in.service(x.Service)}
		in.instances[x.Handle] = o
	}
	o.Instance, o.heard = x, x.Profile.Outcomes
}

// service of the name, with one more instance.
func (in *Ingest) service(name string) *service {
	s := in.services[name]
	if s == nil {
		s = &service{name: name}
		in.services[name] = s
	}
	s.instances++
	return s
}

// Forget drops an instance. What is said about it from then on is discarded.
func (in *Ingest) Forget(handle uint32) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if o := in.instances[handle]; o != nil {
		o.Handle = 0 // its row, if one is open, is dropped when the tick is sealed
		delete(in.instances, handle)
		if o.service.instances--; o.service.instances == 0 {
			delete(in.services, o.service.name)
		}
	}
}

func (in *Ingest) touch(o *open) {
	if !o.dirty {
		o.dirty = true
		in.dirty = append(in.dirty, o)
	}
}
