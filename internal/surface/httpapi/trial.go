package httpapi

import (
	"context"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

const (
	testedSince = 6 * time.Hour
	mostTested  = 7 * 24 * time.Hour // what evidence is kept for
)

// TestContract says what a contract would have done. One that would be refused
// is tested too: what it would have done is the best reason.
func (a *API) TestContract(ctx context.Context, req *connect.Request[fairleadv1.TestContractRequest]) (*connect.Response[fairleadv1.TestContractResponse], error) {
	name := req.Msg.GetService()
	if err := a.known(ctx, name); err != nil {
		return nil, err
	}
	c, err := contractOf(req.Msg.GetContract())
	if err != nil {
		return nil, fault.New(fault.Invalid, contractHint, "the contract cannot be read: %w", err)
	}
	since := testedSince
	if req.Msg.GetSince() != nil {
		since = req.Msg.GetSince().AsDuration()
	}
	if since < time.Second || since > mostTested {
		return nil, fault.New(fault.Invalid, "evidence is kept for 7 days: say between 1s and 168h", "cannot test a contract over %s", since)
	}
	if a.Runtime == nil {
		return nil, fault.New(fault.Unavailable, "", "no evidence is gathered here")
	}
	trial, err := a.Runtime.Try(ctx, name, c, since)
	if err != nil {
		return nil, err
	}
	out := trialTo(trial)
	out.Service = name
	if err := c.Check(); err != nil {
		out.Dangerous = err.Error()
	}
	return connect.NewResponse(out), nil
}

func trialTo(t discovery.Trial) *fairleadv1.TestContractResponse {
	out := &fairleadv1.TestContractResponse{
		Condemned: t.Condemned(), From: timestamp(t.From), To: timestamp(t.To), Seconds: int32(t.Seconds), LostSeconds: int32(t.Lost),
		Inconclusive: t.Inconclusive(), Recorded: int32(t.Recorded), Reproduced: int32(t.Reproduced), Removals: removalsTo(t.Removals), Spared: removalsTo(t.Spared),
	}
	for _, x := range t.Trips {
		out.Trips = append(out.Trips, &fairleadv1.TestedTrip{
			At: timestamp(x.At), Group: x.Group, Zone: x.Zone, InRotation: int32(x.In), Counted: int32(x.Counted), AlsoInForce: x.AlsoInForce,
		})
	}
	return out
}

func removalsTo(all []discovery.Removal) (out []*fairleadv1.TestedRemoval) {
	for _, r := range all {
		out = append(out, &fairleadv1.TestedRemoval{Instance: r.Instance, At: timestamp(r.At), Rule: r.Rule.String(), Why: r.Why, AlsoInForce: r.AlsoInForce})
	}
	return out
}
