package resolver

import (
	"sync/atomic"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// node is what a caller knows of one instance by itself. It is kept from table
// to table by the instance's identity.
//
// What requests touch comes first, and a node is two lines of memory, so that it
// is in one of them and shares it with no other node.
type node struct {
	inflight atomic.Int64
	out      atomic.Bool // set aside: not picked while another may be
	row      atomic.Int32
	// Since the last tick.
	ok, failed, refused atomic.Uint32
	bytes               atomic.Uint64
	id                  string

	// Guarded by the pool's lock.

	recent result // of the last seconds, the older the less
	until  time.Duration
	times  int           // set aside one after the other, which doubles the time
	back   time.Duration // when it came back last
	why    Ejected

	_ [16]byte
}

const nodeSize = 128

// result sums up requests.
type result struct{ ok, failed float64 }

func (r result) plus(o result) result { return result{r.ok + o.ok, r.failed + o.failed} }

func (r result) all() float64 { return r.ok + r.failed }

// rate of failure; 0 where there was no request.
func (r result) rate() float64 {
	if r.failed == 0 {
		return 0
	}
	return r.failed / r.all()
}

// fade is how much of a result counts a second later: half of it after seven.
const fade = 0.9

// seen is recent with what came since the last tick.
func (n *node) seen() result {
	return n.recent.plus(result{float64(n.ok.Load()), float64(n.failed.Load())})
}

// take ends a second: what was counted is recent from now on, and is returned
// to be reported; nil where nothing was.
func (n *node) take() *pb.OutcomeRow {
	n.recent = result{n.recent.ok * fade, n.recent.failed * fade}
	if n.ok.Load() == 0 && n.failed.Load() == 0 {
		return nil
	}
	// Refusals first: whoever counts between the two adds to the failures.
	r := &pb.OutcomeRow{Instance: n.id, Refused: n.refused.Swap(0), Ok: n.ok.Swap(0), Failed: n.failed.Swap(0)}
	r.Refused, r.Bytes = min(r.Refused, r.Failed), n.bytes.Swap(0)
	n.recent = n.recent.plus(result{float64(r.GetOk()), float64(r.GetFailed())})
	return r
}
