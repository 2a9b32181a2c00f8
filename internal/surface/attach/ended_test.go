package attach_test

import (
	"slices"
	"testing"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// A host tells changes in few messages, so that of a process that ended and was
// replaced its leader may see nothing but that it is no more.
func TestOfAnInstanceThatAHostListsNoMoreItIsKnownWhetherItsEndWasTold(t *testing.T) {
	p := newPlane(t, nil)
	report := func(r *pb.HostReport) {
		t.Helper()
		st, _, err := p.dial(t, "alpha", "alpha")
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Send(&pb.AttachRequest{Message: &pb.AttachRequest_Report{Report: r}}); err != nil {
			t.Fatal(err)
		}
	}
	instance := func(id string, s service.InstanceState) *pb.InstanceReport {
		return &pb.InstanceReport{Id: id, Service: "s", State: string(s)}
	}
	report(&pb.HostReport{Full: true, Instances: []*pb.InstanceReport{
		instance("forgotten", service.InstanceLive), instance("gone", service.InstanceLive), instance("exited", service.InstanceExited),
	}})
	p.await(t, "the first answer", func(st service.HostState) bool { return st.Answers == 1 && len(st.Instances) == 3 && st.Ended == nil })
	report(&pb.HostReport{Gone: []string{"gone"}})
	p.await(t, "what is gone", func(st service.HostState) bool { return st.Answers == 1 && slices.Equal(st.Ended, []string{"gone"}) })
	report(&pb.HostReport{Full: true})
	p.await(t, "the second answer", func(st service.HostState) bool {
		return st.Answers == 2 && len(st.Instances) == 0 && slices.Equal(st.Ended, []string{"exited", "gone"})
	})
}
