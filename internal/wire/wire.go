// Package wire carries the core's types over protobuf and back: epochs,
// versions, routes, deltas and templates. X reads what came, XProto makes what
// goes; what XProto made, X reads back unchanged, but that empty lists and maps
// come back nil. It decides nothing: a route that makes no sense is carried,
// and refused by name by whoever routes by it. Read [Delta] first.
package wire

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/view"
)

// EpochProto makes the wire form; the zero epoch is absent.
func EpochProto(e view.Epoch) *pb.Epoch {
	if e.Zero() {
		return nil
	}
	return &pb.Epoch{Incarnation: e.Incarnation, Number: e.Number, Nonce: e.Nonce}
}

// Epoch reads the wire form; absent is the zero epoch.
func Epoch(p *pb.Epoch) view.Epoch {
	return view.Epoch{Incarnation: p.GetIncarnation(), Number: p.GetNumber(), Nonce: p.GetNonce()}
}

// VersionProto makes the wire form; the zero version is absent.
func VersionProto(v view.Version) *pb.Version {
	if v.Zero() {
		return nil
	}
	return &pb.Version{Region: v.Region, Incarnation: v.Incarnation, Epoch: v.Epoch, Counter: v.Counter}
}

// Version reads the wire form; absent is the zero version.
func Version(p *pb.Version) view.Version {
	return view.Version{
		Region: p.GetRegion(), Incarnation: p.GetIncarnation(),
		Epoch: p.GetEpoch(), Counter: p.GetCounter(),
	}
}

// HeldProto names a table by version and digest; a zero version is absent.
func HeldProto(v view.Version, digest string) *pb.Held {
	if v.Zero() {
		return nil
	}
	return &pb.Held{Version: VersionProto(v), Digest: digest}
}

// RouteProto makes the wire form. Numbers beyond 32 bits are cut to the nearest that fits.
func RouteProto(r view.Route) *pb.Route {
	p := &pb.Route{
		Service: r.Service, Sequence: r.Sequence, Deleted: r.Deleted,
		Hosts: r.Hosts, Limits: limitsProto(r.Limits),
	}
	for _, s := range r.Splits {
		p.Splits = append(p.Splits, &pb.Split{
			Revision: s.Revision, Percent: narrow(s.Percent), Group: s.Group,
			Allowed: s.Allowed, Minted: s.Minted, Tag: s.Tag, Hold: s.Hold,
		})
	}
	return p
}

// Route reads the wire form. It shares no memory that the caller may change
// later, as long as the message itself is left alone.
func Route(p *pb.Route) view.Route {
	r := view.Route{
		Service: p.GetService(), Sequence: p.GetSequence(), Deleted: p.GetDeleted(),
		Hosts: list(p.GetHosts()), Limits: limits(p.GetLimits()),
	}
	for _, s := range p.GetSplits() {
		r.Splits = append(r.Splits, view.Split{
			Revision: s.GetRevision(), Percent: int(s.GetPercent()), Group: s.GetGroup(),
			Allowed: list(s.GetAllowed()), Minted: list(s.GetMinted()), Tag: s.GetTag(), Hold: s.GetHold(),
		})
	}
	return r
}

func limitsProto(l view.Limits) *pb.Limits {
	if l == (view.Limits{}) {
		return nil
	}
	return &pb.Limits{
		MaxWaiting: narrow(l.MaxWaiting), FirstByte: durationProto(l.FirstByte),
		Drain: durationProto(l.Drain), Idempotent: l.Idempotent,
	}
}

func limits(p *pb.Limits) view.Limits {
	return view.Limits{
		MaxWaiting: int(p.GetMaxWaiting()), FirstByte: p.GetFirstByte().AsDuration(),
		Drain: p.GetDrain().AsDuration(), Idempotent: p.GetIdempotent(),
	}
}

// DeltaProto makes the wire form.
func DeltaProto(d view.Delta) *pb.RouteDelta {
	p := &pb.RouteDelta{
		Base: VersionProto(d.Base), To: VersionProto(d.To), Epoch: EpochProto(d.Epoch),
		Dropped: d.Dropped, Digest: d.Digest.String(),
		Changed: make([]*pb.Route, 0, len(d.Changed)),
	}
	for _, r := range d.Changed {
		p.Changed = append(p.Changed, RouteProto(r))
	}
	return p
}

// Delta reads the wire form. The error names the digest when it cannot be read.
func Delta(p *pb.RouteDelta) (view.Delta, error) {
	d := view.Delta{
		Base: Version(p.GetBase()), To: Version(p.GetTo()), Epoch: Epoch(p.GetEpoch()),
		Dropped: list(p.GetDropped()),
	}
	for _, r := range p.GetChanged() {
		d.Changed = append(d.Changed, Route(r))
	}
	var err error
	if d.Digest, err = view.ParseDigest(p.GetDigest()); err != nil {
		return view.Delta{}, fmt.Errorf("cannot read a delta to %s: %w", d.To, err)
	}
	return d, nil
}

func durationProto(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func narrow(n int) int32 { return int32(max(math.MinInt32, min(math.MaxInt32, n))) }

func list(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}
