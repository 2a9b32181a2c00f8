package resolver

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/view"
)

// Relays says whether the relays that the plane names are subscribed at.
type Relays int

const (
	// RelaysNever: at controls only.
	RelaysNever Relays = iota
	// RelaysFirst: at relays, and at a control where none can be reached.
	RelaysFirst
	// RelaysLast: at a relay where no control can be reached.
	RelaysLast
)

// Passer is who passes views on: a relay. Its methods are called by one
// goroutine at a time each; they do not wait.
type Passer interface {
	// Welcomed is called with the epoch of the views that follow.
	Welcomed(e view.Epoch, region string)
	// Told is called with each view as it was told, before it is acknowledged.
	Told(v *view.Service, c view.Change)
	// Heard is called with each message.
	Heard(m *pb.SubscribeResponse)
	// Ready is signalled when Next may have something.
	Ready() <-chan struct{}
	// Next is what is said next; nil is nothing. First says that the stream is new.
	Next(first bool) *pb.SubscribeRequest
	// Beside is called on each connection to a control that has welcomed, and
	// returns when ctx ends.
	Beside(ctx context.Context, conn grpc.ClientConnInterface)
}

// passing is a Passer that may be nil.
type passing struct{ p Passer }

func (x passing) next(first bool) *pb.SubscribeRequest {
	if x.p == nil {
		return nil
	}
	return x.p.Next(first)
}

func (x passing) ready() <-chan struct{} {
	if x.p == nil {
		return nil
	}
	return x.p.Ready()
}

func (x passing) heard(m *pb.SubscribeResponse) {
	if x.p != nil {
		x.p.Heard(m)
	}
}

// doors are where one may subscribe beside Controls.
type doors struct {
	Relays []string      `json:"relays,omitempty"`
	Spread time.Duration `json:"spread,omitempty"`
}

const (
	mostRelays    = 1000
	longestSpread = time.Minute
)

// toldOf keeps where one may subscribe; none says nothing.
func (h *Views) toldOf(p *pb.Doors) {
	if p == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doors.Spread = min(max(0, p.GetSpread().AsDuration()), longestSpread)
	h.relaysLocked(p.GetRelays())
}

func (h *Views) relaysLocked(relays []string) {
	if relays = relays[:min(len(relays), mostRelays)]; len(relays) > 0 {
		h.doors.Relays = slices.Clone(relays)
	}
	signal(h.dirty)
}

// sentAway is the refusal that the plane says, and keeps where to go instead.
func (h *Views) sentAway(p *pb.FollowRefusal) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.relaysLocked(p.GetOthers())
	r := refusal{reason: p.GetReason(), leader: p.GetLeader(), retry: min(max(0, p.GetRetry().AsDuration()), longestRetry)}
	if h.cfg.Relays != RelaysNever {
		r.others = p.GetOthers()
	}
	return r
}

// addresses to subscribe at, in order. Relays are ordered by a hash of this
// subscriber and each of them, so that subscribers are shared out among them.
func (h *Views) addresses() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	relays := h.orderedLocked()
	switch h.cfg.Relays {
	case RelaysFirst:
		return append(relays, h.cfg.Controls...)
	case RelaysLast:
		return append(slices.Clone(h.cfg.Controls), relays...)
	}
	return h.cfg.Controls
}

func (h *Views) orderedLocked() []string {
	weight := func(relay string) uint64 {
		x := fnv.New64a()
		_, _ = x.Write([]byte(h.cfg.Name + "\x00" + h.cfg.Session + "\x00" + relay)) // it never fails
		n := x.Sum64()
		n ^= n >> 33
		n *= 0xff51afd7ed558ccd
		return n ^ n>>33
	}
	out := slices.Clone(h.doors.Relays)
	slices.SortFunc(out, func(a, b string) int {
		if weight(a) < weight(b) {
			return -1
		}
		return 1
	})
	return slices.DeleteFunc(out, func(a string) bool { return slices.Contains(h.cfg.Controls, a) })
}

func (h *Views) spread() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.doors.Spread
}

// hello says who subscribes, and how urgent it is.
func (h *Views) hello() *pb.SubscribeHello {
	away := h.whileAway()
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &pb.SubscribeHello{Away: away, Name: h.cfg.name(), Session: h.cfg.Session, Library: h.cfg.Library, Features: features(), HoldsNothing: true, RelaysFailed: true}
	for _, x := range h.held {
		m.HoldsNothing = m.HoldsNothing && x.bare()
	}
	for _, relay := range h.doors.Relays {
		m.RelaysFailed = m.RelaysFailed && h.failed[relay]
	}
	m.RelaysFailed = m.RelaysFailed && len(h.doors.Relays) > 0 || h.cfg.Relays == RelaysNever
	return m
}

func (h *Views) keepDoors() error {
	h.mu.Lock()
	now, kept := h.doors, h.keptDoors
	h.mu.Unlock()
	if now.Spread == kept.Spread && slices.Equal(now.Relays, kept.Relays) {
		return nil
	}
	content, err := doorsFile.encode(now)
	if err == nil {
		err = doorsFile.replace(h.cfg.Folder+"/"+doorsName, content)
	}
	if err == nil {
		h.mu.Lock()
		h.keptDoors = now
		h.mu.Unlock()
	}
	return err
}

// Epoch is the highest of the incarnation that was heard last; zero is none.
func (h *Views) Epoch() view.Epoch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.marks.Last()
}

// Told is a service's view as the plane sent it; nil where none is held.
func (h *Views) Told(service string) *view.Service {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.held[service]; x != nil {
		h.wakeLocked(service, x)
		return x.held.Told()
	}
	return nil
}

// Connected says whether a control, or a relay, has welcomed this subscriber.
func (h *Views) Connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.connected != ""
}

// Age is how long ago a control was heard; zero while one is followed.
func (h *Views) Age() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.connected != "" || h.heard.IsZero() {
		return 0
	}
	return max(0, h.cfg.Clock().Sub(h.heard))
}
