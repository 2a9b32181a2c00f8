package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestADangerousPolicyIsRefusedWithTheReasonUnlessItIsForcedAndTheHistoryNamesTheChange(t *testing.T) {
	eachStore(t, func(t *testing.T, w *world) {
		client := fairleadv1connect.NewDiscoveryAPIServiceClient(http.DefaultClient, w.url)
		set := func(name string, p *fairleadv1.ServicePolicy, force bool) error {
			_, err := client.SetPolicy(w.ctx, connect.NewRequest(&fairleadv1.SetPolicyRequest{Service: name, Policy: p, Force: force}))
			return fault.FromConnect(err)
		}
		if err := set("hello", nil, false); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("of a service that is not known: %v", err)
		}
		w.must(&fairleadv1.DeployRequest{Service: "hello"})
		honour := &fairleadv1.ServicePolicy{Guard: &fairleadv1.GuardPolicy{Mode: "honour"}}
		if err := set("hello", honour, false); fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "followed to an empty set") || !strings.Contains(fault.HintOf(err), "--force") {
			t.Errorf("a dangerous one: %v (%s)", err, fault.HintOf(err))
		}
		if err := set("hello", &fairleadv1.ServicePolicy{ZonePolicy: "near"}, true); fault.CodeOf(err) != fault.Invalid {
			t.Errorf("a wrong one is taken by force: %v", err)
		}
		got, err := client.GetPolicy(w.ctx, connect.NewRequest(&fairleadv1.GetPolicyRequest{Service: "hello"}))
		if err != nil || got.Msg.GetDeclared() || got.Msg.GetPolicy().GetGuard().GetFraction() != 0.5 || got.Msg.GetPolicy().GetZonePolicy() != "prefer" {
			t.Errorf("the default is %v, %v", got, err)
		}
		for _, p := range []*fairleadv1.ServicePolicy{honour, {Owner: "greeters", Ramp: &fairleadv1.RampPolicy{}, AllowedCallers: []string{"service/web"}}} {
			if err := set("hello", p, true); err != nil {
				t.Fatal(err)
			}
		}
		p, _, declared, err := get[service.Policy](w.ctx, w.st, service.KindGovernance, "hello")
		if err != nil || !declared || p.Owner != "greeters" || p.Guard.Mode != "serve-all" || p.Ramp == nil || len(p.AllowedCallers) != 1 {
			t.Errorf("the record is %+v, %v", p, err)
		}
		resp, err := w.services.ListTransitions(w.ctx, connect.NewRequest(&fairleadv1.ListTransitionsRequest{Service: "hello"}))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, p := range resp.Msg.GetPolicies() {
			lines = append(lines, fmt.Sprint(p.GetBy(), " ", p.GetWhat(), " ", strings.Join(p.GetChanges(), "; ")))
		}
		want := `ann policy guard {"fraction":0.5,"mode":"serve-all"} → {"fraction":0.5,"mode":"honour"}
ann policy allowedCallers none → ["service/web"]; guard {"fraction":0.5,"mode":"honour"} → {"fraction":0.5,"mode":"serve-all"}; owner none → "greeters"; ramp none → {"seconds":0}`
		if s := strings.Join(lines, "\n"); s != want {
			t.Errorf("the history is\n%s", s)
		}
	})
}
