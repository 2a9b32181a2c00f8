package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/view"
)

// ChangeProto makes the wire form, under a welcome of an epoch. Region,
// incarnation and epoch are left out where it says them.
func ChangeProto(c view.Change, welcome view.Epoch) *pb.ViewChange {
	p := &pb.ViewChange{
		Service: c.Service, BaseEpoch: c.Base.Epoch, BaseCounter: c.Base.Counter, Counter: c.To.Counter,
		Deleted: c.Deleted, Empty: c.Empty, Gone: c.Gone, SameMarks: c.SameMarks, Digest: digestBytes(c.Digest),
		Nature: uint32(c.Nature), Shed: c.Shed, AllowedCallers: c.Callers, AnyZone: c.AnyZone,
	}
	if c.Epoch != welcome {
		p.Epoch = EpochProto(c.Epoch)
	}
	for _, e := range c.Put {
		p.Put = append(p.Put, &pb.Endpoint{
			Id: e.ID, Revision: e.Revision, Address: e.Address, Zone: e.Zone, Weight: count(e.Weight),
			Verdict: verdictProto(e.Verdict), HealthUnknown: e.HealthUnknown,
		})
	}
	p.Marks = marksProto(c.Marks)
	p.Tags, p.Shares = tagsProto(c.Tags), sharesProto(c.Shares)
	return p
}

func tagsProto(tags []view.Tag) (out []*pb.RouteTag) {
	for _, t := range tags {
		out = append(out, &pb.RouteTag{Name: t.Name, Revisions: t.Revisions})
	}
	return out
}

func sharesProto(shares []view.Share) (out []*pb.RouteShare) {
	for _, s := range shares {
		out = append(out, &pb.RouteShare{Percent: uint32(s.Percent), Revisions: s.Revisions})
	}
	return out
}

func marksProto(marks []view.ZoneMark) (out []*pb.ZoneMark) {
	for _, m := range marks {
		out = append(out, &pb.ZoneMark{
			Group: m.Group, Zone: m.Zone, DegradedConfidence: m.DegradedConfidence, Counted: count(m.Counted), In: count(m.In),
		})
	}
	return out
}

// Change reads the wire form, which came under a welcome of this region and
// epoch. The error names the digest when it cannot be read.
func Change(p *pb.ViewChange, region string, e view.Epoch) (view.Change, error) {
	if p.GetEpoch() != nil {
		e = Epoch(p.GetEpoch())
	}
	c := view.Change{
		Service: p.GetService(), Epoch: e, To: view.Version{Region: region, Incarnation: e.Incarnation, Epoch: e.Number, Counter: p.GetCounter()},
		Deleted: p.GetDeleted(), Empty: p.GetEmpty(), Gone: list(p.GetGone()), SameMarks: p.GetSameMarks(),
		Nature: view.Nature(p.GetNature()), Shed: p.GetShed(), Callers: p.GetAllowedCallers(), AnyZone: p.GetAnyZone(),
	}
	if p.GetBaseCounter() != 0 {
		c.Base = view.Version{Region: region, Incarnation: e.Incarnation, Epoch: p.GetBaseEpoch(), Counter: p.GetBaseCounter()}
	}
	for _, e := range p.GetPut() {
		c.Put = append(c.Put, view.Endpoint{
			ID: e.GetId(), Revision: e.GetRevision(), Address: e.GetAddress(), Zone: e.GetZone(), Weight: int(e.GetWeight()),
			Verdict: verdict(e.GetVerdict()), HealthUnknown: e.GetHealthUnknown(),
		})
	}
	for _, m := range p.GetMarks() {
		c.Marks = append(c.Marks, view.ZoneMark{
			Group: m.GetGroup(), Zone: m.GetZone(), DegradedConfidence: m.GetDegradedConfidence(), Counted: int(m.GetCounted()), In: int(m.GetIn()),
		})
	}
	for _, t := range p.GetTags() {
		c.Tags = append(c.Tags, view.Tag{Name: t.GetName(), Revisions: t.GetRevisions()})
	}
	for _, s := range p.GetShares() {
		c.Shares = append(c.Shares, view.Share{Percent: int(min(s.GetPercent(), 100)), Revisions: s.GetRevisions()})
	}
	if len(p.GetDigest()) != 16 {
		return view.Change{}, fmt.Errorf("cannot read the change to %s of %s: its digest has %d bytes", c.To, c.Service, len(p.GetDigest()))
	}
	c.Digest = view.Digest{binary.BigEndian.Uint64(p.GetDigest()), binary.BigEndian.Uint64(p.GetDigest()[8:])}
	return c, nil
}

func digestBytes(d view.Digest) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, d[0]), d[1])
}

// count cuts to what fits.
func count(n int) uint32 { return uint32(max(0, min(math.MaxUint32, n))) }

func verdictProto(v view.Verdict) pb.Verdict {
	switch v {
	case view.Eligible:
		return pb.Verdict_VERDICT_ELIGIBLE
	case view.Degraded:
		return pb.Verdict_VERDICT_DEGRADED
	case view.Ineligible:
		return pb.Verdict_VERDICT_INELIGIBLE
	}
	return pb.Verdict_VERDICT_UNKNOWN
}

// verdict that is not known here says nothing about the endpoint; its weight does.
func verdict(p pb.Verdict) view.Verdict {
	switch p {
	case pb.Verdict_VERDICT_ELIGIBLE:
		return view.Eligible
	case pb.Verdict_VERDICT_DEGRADED:
		return view.Degraded
	case pb.Verdict_VERDICT_INELIGIBLE:
		return view.Ineligible
	}
	return view.Unknown
}
