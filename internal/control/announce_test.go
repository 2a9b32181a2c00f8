package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestADeployIsNotDoneUntilTheViewThatHoldsItsInstancesIsPublished(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		p := &pickers{}
		r.start(options{edit: func(c *control.Config) { c.Callers = p }})
		p.stayAway(true)
		r.deploy("hello", "one")
		routed := func() bool {
			routes, is := get[service.Routes](r, service.KindRoutes, "hello")
			return is && len(routes.Plan.Splits) == 1
		}
		r.within(30*time.Second, "the routes are published", routed)
		time.Sleep(25 * time.Second)
		if c := r.catalog("hello"); c.Latest != "" || r.deploySaga("hello").State != saga.Running {
			t.Fatalf("it is done, and no view is published: %+v, %+v", c, r.deploySaga("hello"))
		}
		p.stayAway(false)
		r.within(time.Second, "it is done once that is", func() bool { return r.catalog("hello").Latest == "hello-00001" })

		p.stayAway(true)
		r.deploy("hello", "two")
		r.within(time.Minute, "one whose view is never published fails, and says why", func() bool {
			s := r.deploySaga("hello")
			return s.Subject == "hello-00002" && s.State == saga.Waiting && s.FailedStep == "routes" && strings.Contains(s.Error, "was not published within 30s: the discovery plane has not begun yet")
		})
		if why := r.disagreement("hello"); why != "" || r.catalog("hello").Latest != "hello-00001" {
			t.Errorf("it is not as before: %s, %+v", why, r.catalog("hello"))
		}
	})
}
