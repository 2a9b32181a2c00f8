package may_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/may"
)

func TestWhoMayCallAService(t *testing.T) {
	var (
		web     = may.Caller{Role: "service", Name: "web"}
		batch   = may.Caller{Role: "caller", Name: "batch"}
		gateway = may.Caller{Role: "gateway", Name: "gw"}
		relay   = may.Caller{Role: "relay", Name: "r1"}
		agent   = may.Caller{Role: "agent", Name: "m1"}
		job     = may.Caller{Role: "agent", Name: "m1", Workload: "job"}
		person  = may.Caller{Role: "operator", Name: "ann"}
	)
	for _, c := range []struct {
		says    string
		caller  may.Caller
		allowed string
		may     bool
	}{
		{"open by default", batch, "", true},
		{"one that is named", batch, "caller/batch", true},
		{"one of several that are named", web, "caller/batch service/web", true},
		{"one that is not named", batch, "service/web", false},
		{"the same name in another role is another", may.Caller{Role: "service", Name: "batch"}, "caller/batch", false},
		{"all of a role", batch, "caller/*", true},
		{"all of another role", web, "caller/*", false},
		{"a name that only begins the same", may.Caller{Role: "caller", Name: "batch2"}, "caller/batch", false},
		{"a gateway is infrastructure", gateway, "service/web", true},
		{"a relay passes on, and checks itself", relay, "service/web", true},
		{"a person looks at everything", person, "service/web", true},
		{"an agent that is not named", agent, "service/web", false},
		{"a workload of an agent that is not named", job, "service/web", false},
		{"an agent with all its workloads", agent, "agent/m1", true},
		{"a workload of an agent that is named", job, "agent/m1", true},
		{"an agent holds what one of its workloads may", agent, "agent/m1/job", true},
		{"a workload that is named", job, "agent/m1/job", true},
		{"its neighbour is not", may.Caller{Role: "agent", Name: "m1", Workload: "other"}, "agent/m1/job", false},
		{"a workload of any agent", job, "agent/*/job", true},
		{"nobody in particular", may.Caller{}, "caller/batch", false},
	} {
		t.Run(c.says, func(t *testing.T) {
			err := may.Check(c.caller, "payments", strings.Fields(c.allowed))
			if (err == nil) != c.may {
				t.Fatalf("%s among %q: %v", c.caller, c.allowed, err)
			}
			var f *may.Forbidden
			if err != nil && (!errors.As(err, &f) || !strings.Contains(err.Error(), "payments does not allow "+c.caller.String())) {
				t.Errorf("the refusal does not name both: %v", err)
			}
		})
	}
}
