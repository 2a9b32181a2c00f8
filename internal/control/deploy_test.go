package control_test

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestADeployServesAfterThreeSecondsOfReadiness(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		began := time.Now()
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		if took := time.Since(began); took < 3*time.Second || took > 3300*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		s := r.deploySaga("hello")
		if s.State != saga.Done || s.At() != "" {
			t.Errorf("the saga is %+v", s)
		}
		if c := r.catalog("hello"); c.ObservedGeneration != 1 || c.LastRevision != 1 || c.Hosts[0] != "hello.localhost" {
			t.Errorf("the catalog is %+v", c)
		}
		rev, _ := get[service.Revision](r, service.KindRevision, "hello-00001")
		if rev.State != service.RevisionServing {
			t.Errorf("the revision is %+v", rev)
		}
	})
}
