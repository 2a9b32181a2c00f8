package witness

import (
	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
)

// ToApart puts into a row what those saw most of whose results failed.
func ToApart(row *pb.MergedRow, a evidence.Apart) {
	if len(a.Zones)+len(a.Revisions) == 0 {
		return
	}
	row.Zones, row.Revisions, row.Well = toParts(a.Zones), toParts(a.Revisions), toPart(evidence.Part{Outcomes: a.Well})
}

// Apart of a row, read back.
func Apart(row *pb.MergedRow) evidence.Apart {
	return evidence.Apart{Zones: parts(row.GetZones()), Revisions: parts(row.GetRevisions()), Well: part(row.GetWell()).Outcomes}
}

func toParts(all []evidence.Part) (out []*pb.MergedPart) {
	for _, p := range all {
		out = append(out, toPart(p))
	}
	return out
}

func toPart(p evidence.Part) *pb.MergedPart {
	return &pb.MergedPart{
		Caller: uint32(p.Caller), Ok: p.OK, Failed: p.Failed, Compared: p.Compared, Expected: p.Expected,
		Reporters: uint64(p.Reporters), Hurt: uint64(p.Hurt), Refusing: uint64(p.Refusing),
	}
}

func parts(all []*pb.MergedPart) (out []evidence.Part) {
	for _, m := range all {
		out = append(out, part(m))
	}
	return out
}

func part(m *pb.MergedPart) evidence.Part {
	return evidence.Part{Caller: int(m.GetCaller()), Outcomes: eligibility.Outcomes{
		OK: m.GetOk(), Failed: m.GetFailed(), Compared: m.GetCompared(), Expected: m.GetExpected(),
		Reporters: eligibility.Sketch(m.GetReporters()), Hurt: eligibility.Sketch(m.GetHurt()), Refusing: eligibility.Sketch(m.GetRefusing()),
	}}
}

// ToGroups says what callers of each name saw of services.
func ToGroups(all []evidence.Group) (out []*pb.MergedGroup) {
	for _, g := range all {
		out = append(out, &pb.MergedGroup{
			Service: g.Service, Revision: g.Revision, Caller: uint32(g.Caller), Results: g.Results, Failed: g.Failed,
			Reporters: uint64(g.Reporters), Failing: uint64(g.Failing),
		})
	}
	return out
}

// Groups read back.
func Groups(all []*pb.MergedGroup) (out []evidence.Group) {
	for _, m := range all {
		out = append(out, evidence.Group{
			Service: m.GetService(), Revision: m.GetRevision(), Caller: int(m.GetCaller()), Results: m.GetResults(), Failed: m.GetFailed(),
			Reporters: eligibility.Sketch(m.GetReporters()), Failing: eligibility.Sketch(m.GetFailing()),
		})
	}
	return out
}
