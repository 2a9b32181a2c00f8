package witness

import (
	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
)

// ToParts says what callers of each name saw of an instance. One part alone is
// the whole row, and has no numbers of its own.
func ToParts(parts []evidence.Part) (out []*pb.MergedPart) {
	for _, p := range parts {
		m := &pb.MergedPart{Caller: uint32(p.Caller), Failing: uint64(p.Failing)}
		if len(parts) > 1 {
			m.Ok, m.Failed, m.Compared, m.Expected = p.OK, p.Failed, p.Compared, p.Expected
			m.Reporters, m.Hurt, m.Refusing = uint64(p.Reporters), uint64(p.Hurt), uint64(p.Refusing)
		}
		out = append(out, m)
	}
	return out
}

// Parts of a row, read back.
func Parts(row *pb.MergedRow, parts []*pb.MergedPart) (out []evidence.Part) {
	for _, m := range parts {
		p := evidence.Part{Caller: int(m.GetCaller()), Failing: eligibility.Sketch(m.GetFailing()), Outcomes: eligibility.Outcomes{
			OK: m.GetOk(), Failed: m.GetFailed(), Compared: m.GetCompared(), Expected: m.GetExpected(),
			Reporters: eligibility.Sketch(m.GetReporters()), Hurt: eligibility.Sketch(m.GetHurt()), Refusing: eligibility.Sketch(m.GetRefusing()),
		}}
		if len(parts) == 1 && m.GetReporters() == 0 {
			p.Outcomes = eligibility.Outcomes{
				OK: row.GetOk(), Failed: row.GetFailed(), Compared: row.GetCompared(), Expected: row.GetExpected(),
				Reporters: eligibility.Sketch(row.GetReporters()), Hurt: eligibility.Sketch(row.GetHurt()), Refusing: eligibility.Sketch(row.GetRefusing()),
			}
		}
		out = append(out, p)
	}
	return out
}
