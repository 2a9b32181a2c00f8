package host_test

import (
	"testing"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
)

// An exclusive handover goes by what is reported once the stop is accepted: a
// process that was started again just before must be known by then.
func TestWhoLearnsThatACommandIsObeyedKnowsWhatRanUntilThen(t *testing.T) {
	r := start(t)
	r.assign(t, hosttest.TemplateOf(hosttest.Serves))
	in := r.awaitLive(t)
	stop := &pb.HostCommand{
		Id: "1", Epoch: &pb.Epoch{Incarnation: "i", Number: 1, Nonce: "n"},
		Command: &pb.HostCommand_Stop{Stop: &pb.StopCommand{Slot: in.GetSlot()}},
	}
	said := r.Obey(stop, stop)
	if len(said) < 3 || !said[0].GetReport().GetFull() || said[0].GetReport().GetInstances()[0].GetId() != in.GetId() || said[1].GetResult() == nil {
		t.Fatalf("it says %v, expected all that it runs before the result", said)
	}
	for _, m := range said[2:] {
		if m.GetReport().GetFull() {
			t.Errorf("it says all twice: %v", said)
		}
	}
}
