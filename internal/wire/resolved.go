package wire

import (
	"fmt"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/view"
)

// ResolvedProto is a view as people and programs ask for it; where it comes
// from, and how old it is, is the answerer's to say.
func ResolvedProto(v *view.Service) *pb.ResolveResponse {
	m := &pb.ResolveResponse{
		Service: v.Name, Version: VersionText(v.Version), Incarnation: v.Version.Incarnation,
		Deleted: v.Deleted, Empty: v.Empty, Marks: marksProto(v.Marks), AllowedCallers: v.Callers, AnyZone: v.AnyZone,
		Shares: sharesProto(v.Shares), Tags: tagsProto(v.Tags),
	}
	for i := range v.Endpoints {
		m.Endpoints = append(m.Endpoints, ResolvedEndpointProto(&v.Endpoints[i]))
	}
	return m
}

// VersionText is a version within its incarnation, for people; empty where
// there is none.
func VersionText(v view.Version) string {
	if v.Zero() {
		return ""
	}
	return fmt.Sprintf("%d/%d", v.Epoch, v.Counter)
}

// ResolvedEndpointProto is one endpoint of it.
func ResolvedEndpointProto(e *view.Endpoint) *pb.ResolvedEndpoint {
	return &pb.ResolvedEndpoint{
		Instance: e.ID, Address: e.Address, Zone: e.Zone, Revision: e.Revision, Weight: count(e.Weight),
		Verdict: string(e.Verdict), HealthUnknown: e.HealthUnknown,
	}
}
