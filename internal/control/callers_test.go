package control_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// called is a region whose service hello has n instances of its first revision,
// and callers that acknowledge nothing until a test lets them.
func called(t *testing.T, n int, f func(r *rig, c *running, p *pickers)) {
	inRegion(t, 1, func(r *rig) {
		p := &pickers{}
		c := r.start(options{edit: func(c *control.Config) { c.Callers = p }})
		r.write("hello", func(d *service.Desired) { d.Template.Command, d.Instances = []string{"one"}, n })
		r.serves(30*time.Second, "hello", "hello-00001")
		f(r, c, p)
	})
}

// waits says for whom a stop waits; empty: none does.
func waits(c *running) string {
	if all := c.Stops("hello"); len(all) > 0 {
		return all[0].For.Text()
	}
	return ""
}

const web = "1 caller (service/web)"

func (r *rig) runningOf(revision string) (n int) {
	for _, i := range r.hosts.Running() {
		if i.Revision == revision && i.State == service.InstanceLive {
			n++
		}
	}
	return n
}

func TestARevisionThatIsRoutedNoMoreIsNotStoppedBeforeCallersHaveAcknowledgedItOrHadTheirTime(t *testing.T) {
	called(t, 1, func(r *rig, c *running, p *pickers) {
		r.deploy("hello", "two")
		r.serves(30*time.Second, "hello", "hello-00002")
		began := time.Now()
		time.Sleep(12 * time.Second) // the collector waits for 10
		// The service's worker is free for other work meanwhile.
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.within(8*time.Second, "the second is scaled", func() bool { return r.runningOf("hello-00002") == 2 })
		time.Sleep(4 * time.Second)
		if r.runningOf("hello-00001") != 1 {
			t.Fatal("it is stopped, and a caller may pick it")
		}
		r.within(30*time.Second, "it is stopped when the callers' time has passed", func() bool { return r.runningOf("hello-00001") == 0 })
		if took := time.Since(began); took > 45*time.Second {
			t.Errorf("that took %s", took)
		}
	})
}

func TestARevisionIsCollectedAsSoonAsCallersHaveAcknowledged(t *testing.T) {
	called(t, 1, func(r *rig, c *running, p *pickers) {
		p.let(true)
		r.deploy("hello", "two")
		r.serves(30*time.Second, "hello", "hello-00002")
		r.within(14*time.Second, "it is stopped", func() bool { return r.runningOf("hello-00001") == 0 })
	})
}

func TestARestartInItsSlotEndsTheOldProcessOnlyOnceCallersHaveAcknowledged(t *testing.T) {
	called(t, 2, func(r *rig, c *running, p *pickers) {
		old := r.live("hello-00001")
		lives := func(id string) bool {
			return slices.ContainsFunc(r.live("hello-00001"), func(i service.Instance) bool { return i.ID == id })
		}
		r.write("hello", func(d *service.Desired) { d.Round++ })
		r.within(10*time.Second, "a stop waits for the caller", func() bool { return waits(c) == web })
		if n := len(r.live("hello-00001")); n != 3 {
			t.Errorf("%d run beside the new one", n)
		}
		time.Sleep(10 * time.Second)
		if !lives(old[0].ID) || !lives(old[1].ID) {
			t.Fatal("an old process was ended, and a caller may pick it")
		}
		p.let(true)
		r.within(15*time.Second, "both are replaced once they have", func() bool {
			return r.catalog("hello").Round == 1 && len(r.live("hello-00001")) == 2 && !lives(old[0].ID) && !lives(old[1].ID)
		})
		if got := waits(c); got != "" {
			t.Errorf("a stop still waits for %s", got)
		}
		p.let(false)
		old = r.live("hello-00001")
		r.write("hello", func(d *service.Desired) { d.Round++ })
		time.Sleep(17 * time.Second)
		if !lives(old[0].ID) || !lives(old[1].ID) {
			t.Fatal("an old process was ended before the callers' time had passed")
		}
		r.within(time.Minute, "both are replaced when it has", func() bool { return r.catalog("hello").Round == 2 && len(r.live("hello-00001")) == 2 })
	})
}

func TestALaterIntentEndsTheWaitForCallers(t *testing.T) {
	called(t, 3, func(r *rig, c *running, p *pickers) {
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.within(10*time.Second, "a stop waits for the caller", func() bool { return waits(c) == web })
		r.deploy("hello", "two")
		r.within(8*time.Second, "what was asked for later serves", func() bool { return r.catalog("hello").Latest == "hello-00002" })
	})
}

func TestADeletionStopsNothingBeforeCallersHaveAcknowledgedIt(t *testing.T) {
	called(t, 2, func(r *rig, c *running, p *pickers) {
		r.write("hello", func(d *service.Desired) { d.Deleted = true })
		r.within(10*time.Second, "a stop waits for the caller", func() bool { return waits(c) == web })
		time.Sleep(10 * time.Second)
		if n := r.runningOf("hello-00001"); n != 2 {
			t.Fatalf("%d run, and a caller may pick them", n)
		}
		p.let(true)
		r.within(20*time.Second, "it is gone once they have", func() bool {
			_, is := get[service.Desired](r, service.KindDesired, "hello")
			return !is && len(r.hosts.Running()) == 0
		})
	})
}

func TestAFailedDeployIsUndoneOnceCallersPickNothingOfItAnyMore(t *testing.T) {
	called(t, 1, func(r *rig, c *running, p *pickers) {
		p.stayAway(true) // the view is never published: it fails after the routes were
		r.deploy("hello", "two")
		r.within(time.Minute, "its stop waits for the caller", func() bool { return waits(c) == web })
		if r.runningOf("hello-00002") != 1 {
			t.Error("it is stopped, and a caller may pick it")
		}
		p.let(true)
		r.within(10*time.Second, "it is stopped once they have", func() bool { return r.runningOf("hello-00002") == 0 })
	})
}

func TestAnExclusiveHandoverStopsTheOldOnceCallersHaveAcknowledgedItOrHadTheirTime(t *testing.T) {
	called(t, 1, func(r *rig, c *running, p *pickers) {
		r.write("hello", func(d *service.Desired) {
			d.Template.Command, d.Template.Handover = []string{"two"}, service.HandoverExclusive
		})
		r.within(10*time.Second, "its stop waits for the caller", func() bool { return waits(c) == web })
		if r.runningOf("hello-00001") != 1 {
			t.Error("it is stopped, and a caller may pick it")
		}
		r.serves(40*time.Second, "hello", "hello-00002")
	})
}
