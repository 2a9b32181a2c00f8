package host

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
)

// outgoing is what the leader has not been told yet: instances that changed
// and those that are gone. What changes twice is told once.
type outgoing struct {
	dirty map[string]bool // :: instance
	gone  map[string]bool // :: instance
	some  chan struct{}
}

func newOutgoing() outgoing {
	return outgoing{dirty: map[string]bool{}, gone: map[string]bool{}, some: make(chan struct{}, 1)}
}

func (o *outgoing) stir() {
	select {
	case o.some <- struct{}{}:
	default: // the reporter is awake
	}
}

// touchLocked has the leader told of an instance.
func (h *Host) touchLocked(in *instance) {
	h.outgoing.dirty[in.rec.ID] = true
	h.outgoing.stir()
}

// goneLocked has the leader told that an instance is forgotten.
func (h *Host) goneLocked(in *instance) {
	delete(h.outgoing.dirty, in.rec.ID)
	h.outgoing.gone[in.rec.ID] = true
	h.outgoing.stir()
}

// fullReport is all that there is; what was waiting to be told is part of it.
func (h *Host) fullReport() *pb.HostReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.outgoing.dirty)
	clear(h.outgoing.gone)
	r := &pb.HostReport{Full: true, Slots: slices.Sorted(maps.Keys(h.slots))}
	for _, id := range slices.Sorted(maps.Keys(h.instances)) {
		r.Instances = append(r.Instances, h.reportLocked(h.instances[id]))
	}
	return r
}

// nextReport is what changed since the last one; nil when nothing did.
func (h *Host) nextReport() *pb.HostReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.outgoing.dirty)+len(h.outgoing.gone) == 0 {
		return nil
	}
	r := &pb.HostReport{Gone: slices.Sorted(maps.Keys(h.outgoing.gone))}
	for _, id := range slices.Sorted(maps.Keys(h.outgoing.dirty)) {
		if in := h.instances[id]; in != nil {
			r.Instances = append(r.Instances, h.reportLocked(in))
		}
	}
	clear(h.outgoing.dirty)
	clear(h.outgoing.gone)
	return r
}

// reportLocked is what the leader is told of an instance.
func (h *Host) reportLocked(in *instance) *pb.InstanceReport {
	r := reportOf(in)
	away := h.ledger.away(in.rec.ID)
	for _, gateway := range slices.Sorted(maps.Keys(away)) {
		r.Away = append(r.Away, &pb.CreditsAway{Gateway: gateway, Credits: int32(away[gateway])})
	}
	return r
}

func reportOf(in *instance) *pb.InstanceReport {
	a := in.rec.Assignment
	r := &pb.InstanceReport{
		Id: in.rec.ID, Slot: a.Slot, Service: a.Service, Revision: a.Revision, Minted: a.Minted, State: string(in.state),
		Pid: int32(in.rec.Pid), Restarts: int32(in.rec.Restarts), Round: a.Round,
		Detail: in.detail, ExitStatus: in.status, Adopted: in.adopted,
	}
	r.Word = wire.WordProto(in.word)
	if in.before != "" {
		r.Before = service.EndText(in.before, in.linesBefore)
	}
	if in.runs() {
		r.Detail = service.DetailAfter(in.detail, in.before)
	}
	if in.rec.Port != 0 {
		r.Address = in.addr.String()
	}
	if in.state == service.InstanceLive {
		r.LiveFor = durationpb.New(in.liveFor())
	} else {
		r.LastLines = in.lastLines
	}
	return r
}
