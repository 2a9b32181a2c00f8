package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

func TestStatusInTroubleIsTold(t *testing.T) {
	var out bytes.Buffer
	held := timestamppb.New(time.Date(2026, 3, 14, 15, 9, 26, 0, time.Local))
	(&printer{Writer: &out, form: "table"}).status(&fairleadv1.GetStatusResponse{
		Service: "shop", Url: "http://shop.localhost/", Generation: 2, ObservedGeneration: 1,
		Routes: &fairleadv1.RoutesStatus{
			Version: "7f/3/11", Gateways: 3, Acknowledged: 1, Behind: []string{"gw-c"}, Held: true, HeldSince: held, Waiting: 14,
			Traffic: []*fairleadv1.RouteTraffic{{Revision: "shop-00002", Percent: 100}},
			Unheard: []*fairleadv1.UnheardGateway{{Name: "gw-b", Silent: durationpb.New(192 * time.Second)}, {Name: "gw-c"}},
		},
		Missing: []*fairleadv1.MissingCredits{
			{Gateway: "gw-a", Credits: 3, Of: 200, Heard: true}, {Gateway: "gw-b", Credits: 30, Of: 200},
		},
		Deployment: &fairleadv1.DeploymentStatus{Kind: "scale", Attempt: 1, State: "done"},
		Instances: []*fairleadv1.InstanceStatus{
			{Id: "i1", Slot: "shop-00001.0", State: "unheard", Host: "h1", Zone: "a", Detail: "live 40s ago, when host h1 was last heard"},
			{Id: "i2", Slot: "shop-00001.1", State: "live", SlotState: "leaving", Host: "h2", Zone: "a"},
		},
	})
	want := `shop  http://shop.localhost/
generation     2 wanted, 1 applied
traffic        -
held           since 2026-03-14 15:09:26, 14 requests wait: fairlead explain shop
routes         shop-00002 100%  version 7f/3/11
gateways       1 of 3 serve it; behind: gw-c; not heard: gw-b for 3 m 12 s, gw-c since control began to lead
missing        3 of 200 credits are with gateway gw-a, which its hosts do not hear; control does
missing        30 of 200 credits are with gateway gw-b, which is not heard; if it does not come back: fairlead gateways retire gw-b
last change    scale, attempt 1: done

REVISION  STATE  CREATED  DIGEST  REASON

INSTANCE  SLOT          STATE         PID  RESTARTS  HOST/ZONE  ELIGIBILITY  DETAIL
i1        shop-00001.0  unheard       0    0         h1/a                    live 40s ago, when host h1 was last heard
i2        shop-00001.1  live,leaving  0    0         h2/a                    
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
