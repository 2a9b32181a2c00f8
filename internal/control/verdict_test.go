package control_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// opinions are what is believed of instances: nothing against them, but for
// those that a test says something of.
type opinions struct {
	mu      sync.Mutex
	against map[string]control.Verdict // :: instance, or service → verdict
	changed chan struct{}
}

func newOpinions() *opinions {
	return &opinions{against: map[string]control.Verdict{}, changed: make(chan struct{})}
}

func (o *opinions) Of(svc, instance string) control.Verdict {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, about := range []string{instance, svc} {
		if v, is := o.against[about]; is {
			return v
		}
	}
	return control.Verdict{Ready: true, Before: true}
}

func (o *opinions) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

func (o *opinions) say(about string, v control.Verdict) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.against[about] = v
	close(o.changed)
	o.changed = make(chan struct{})
}

func (r *rig) judged(warm time.Duration) *opinions {
	o := newOpinions()
	r.start(options{warm: warm, edit: func(c *control.Config) { c.Verdicts = o }})
	return o
}

func TestADeployWaitsForTheVerdictAndSaysWhatItSays(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		o := r.judged(0)
		o.say("hello", control.Verdict{Why: "ineligible: its probes fail"})
		r.deploy("hello", "one")
		time.Sleep(20 * time.Second)
		if n := len(r.live("hello-00001")); n != 1 || r.catalog("hello").Latest != "" {
			t.Fatalf("%d live, the catalog names %q: a live instance was routed to before its verdict", n, r.catalog("hello").Latest)
		}
		o.say("hello", control.Verdict{Ready: true})
		r.serves(time.Second, "hello", "hello-00001")
		o.say("hello", control.Verdict{Why: "ineligible: its probes fail"})
		r.deploy("hello", "two")
		r.within(90*time.Second, "the deploy fails", func() bool { s := r.deploySaga("hello"); return s.State == saga.Failed || s.State == saga.Waiting })
		if s := r.deploySaga("hello"); !strings.Contains(s.Error, "is live, and ineligible: its probes fail") {
			t.Errorf("it says %q", s.Error)
		}
		if latest := r.catalog("hello").Latest; latest != "hello-00001" {
			t.Errorf("%s serves", latest)
		}
	})
}

func TestAScaleUpWaitsForWhoIsNewAndNotForWhoIsIll(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		o := r.judged(0)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		ill := r.live("hello-00001")[0]
		o.say(ill.ID, control.Verdict{Before: true, Why: "ineligible: a third of its requests fails"})
		o.say("hello", control.Verdict{Why: "unknown: it has only started"})
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(10*time.Second, "they run", func() bool { return len(r.live("hello-00001")) == 3 })
		time.Sleep(10 * time.Second)
		if r.saga("hello", service.WorkScale).State == saga.Done {
			t.Error("it is done before who is new was ready")
		}
		o.say("hello", control.Verdict{Ready: true})
		r.within(5*time.Second, "it is done", func() bool { return r.saga("hello", service.WorkScale).State == saga.Done })
	})
}

func TestARollbackToWhoIsWarmWaitsForNoVerdict(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		o := r.judged(10 * time.Minute)
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		o.say("hello", control.Verdict{Why: "unknown: nobody sees it"})
		if _, err := r.rollback("hello", ""); err != nil {
			t.Fatal(err)
		}
		r.leads(time.Second, "hello", "hello-00001")
	})
}

func TestAScaleDownStopsFirstWhoIsOutOfRotationByItsVerdict(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		o := r.judged(0)
		r.deploy("hello", "one")
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(60*time.Second, "three serve", func() bool { return len(r.live("hello-00001")) == 3 })
		time.Sleep(10 * time.Second)
		ill := r.live("hello-00001")[0]
		o.say(ill.ID, control.Verdict{Before: true, Why: "ineligible: a third of its requests fails"})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.within(60*time.Second, "two are left", func() bool { return len(r.live("hello-00001")) == 2 })
		for _, i := range r.live("hello-00001") {
			if i.ID == ill.ID {
				t.Errorf("%s is out of rotation, and another was stopped", ill.ID)
			}
		}
	})
}

func TestARestartBeginsWithWhoIsOutOfRotationAndEndsWithWhoDoesWell(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		o := r.judged(0)
		r.deploy("hello", "one")
		r.write("hello", func(d *service.Desired) { d.Instances = 3 })
		r.within(60*time.Second, "three serve", func() bool { return r.catalog("hello").Instances == 3 })
		before := map[string]string{} // :: slot → process
		for _, i := range r.live("hello-00001") {
			before[i.Slot] = i.ID
		}
		o.say(before["hello-00001.2"], control.Verdict{Before: true, Why: "ineligible: a third of its requests fails"})
		o.say(before["hello-00001.1"], control.Verdict{Ready: true, Before: true, Unseen: true})
		var order []string
		r.write("hello", func(d *service.Desired) { d.Round++ })
		r.within(2*time.Minute, "all are replaced", func() bool {
			for _, i := range r.live("hello-00001") {
				if i.ID != before[i.Slot] && !slices.Contains(order, i.Slot) {
					order = append(order, i.Slot)
				}
			}
			return r.saga("hello", service.WorkRestart).State == saga.Done
		})
		if want := []string{"hello-00001.2", "hello-00001.1", "hello-00001.0"}; !slices.Equal(order, want) {
			t.Errorf("replaced in the order %v, want %v", order, want)
		}
	})
}

func TestWhatIsStartedAgainAfterAFailureWaitsForItsVerdictAndNotForEver(t *testing.T) {
	for name, believed := range map[string]bool{"it is believed": true, "nothing is said of it": false} {
		t.Run(name, func(t *testing.T) {
			inRegion(t, 1, func(r *rig) {
				neverTwo(r)
				o := r.judged(0)
				r.swap("hello", "one")
				r.serves(10*time.Second, "hello", "hello-00001")
				first := r.live("hello-00001")[0].ID
				r.swap("hello", "two")
				r.within(30*time.Second, "the new one is tried", func() bool { return r.deploySaga("hello").At() == "ready" })
				o.say("hello", control.Verdict{Why: "unknown: it has only started"})
				r.within(time.Minute, "the old one runs again", func() bool {
					live := r.live("hello-00001")
					return len(live) == 1 && live[0].ID != first
				})
				held := func() bool {
					route, _ := r.gateways.Gateway("g1").Table().Route("hello")
					return route.Splits[0].Hold
				}
				time.Sleep(10 * time.Second)
				if !held() {
					t.Fatal("requests go to it before it is believed")
				}
				if believed {
					o.say("hello", control.Verdict{Ready: true})
					r.within(2*time.Second, "it is believed, and answers", func() bool { return !held() })
					return
				}
				r.within(15*time.Second, "the best that there is answers", func() bool { return !held() })
			})
		})
	}
}
