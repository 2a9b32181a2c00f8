package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// ends are the events that tell of processes which ended by themselves.
func (r *rig) ends(name string) []string {
	var out []string
	for _, e := range list[service.Event](r, service.KindEvent, name) {
		if e.Kind == "instance" {
			out = append(out, e.Text)
		}
	}
	return out
}

func TestACrashOfAServingInstanceIsAnEventAndItsRepeatsAreOneAMinute(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		first := r.start(options{})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		time.Sleep(time.Minute)
		if told := r.ends("hello"); len(told) != 0 {
			t.Fatalf("nothing has ended, and the history tells of %q", told)
		}
		r.hosts.Kill(r.live("hello-00001")[0].ID)
		r.within(5*time.Second, "the end is told", func() bool { return len(r.ends("hello")) == 1 })
		if text := r.ends("hello")[0]; !strings.Contains(text, "slot hello-00001.0 on host") || !strings.Contains(text, "ended by itself: signal: killed") {
			t.Errorf("told is %q", text)
		}

		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour {
			return hosttest.Behaviour{ExitAfter: time.Second, ExitStatus: "exit status 9"}
		})
		r.hosts.Kill(r.live("hello-00001")[0].ID)
		time.Sleep(10 * time.Minute) // again and again, each half a minute at most
		told := r.ends("hello")
		if n := len(told); n < 8 || n > 11 {
			t.Errorf("%d events in ten minutes: %q", n, told)
		}
		if last := told[len(told)-1]; !strings.Contains(last, "exit status 9") || !strings.Contains(last, "times since it was last told") {
			t.Errorf("told last is %q", last)
		}

		r.hosts.Behave(func(string, service.Assignment) hosttest.Behaviour { return hosttest.Behaviour{} })
		time.Sleep(2 * time.Minute)
		before := len(r.ends("hello"))
		first.stop()
		r.start(options{})
		time.Sleep(5 * time.Minute)
		if now := r.ends("hello"); len(now) != before {
			t.Errorf("the next leader tells again: %q", now[before:])
		}
	})
}

func TestAnInstanceThatIsReplacedOrStoppedDidNotEndByItself(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		r.start(options{})
		r.write("hello", func(d *service.Desired) { d.Instances = 2 })
		r.serves(10*time.Second, "hello", "hello-00001")
		r.write("hello", func(d *service.Desired) { d.Round++ })
		time.Sleep(time.Minute)
		r.write("hello", func(d *service.Desired) { d.Instances = 1 })
		time.Sleep(time.Minute)
		r.deploy("hello", "two")
		r.serves(10*time.Second, "hello", "hello-00002")
		time.Sleep(time.Minute)
		if told := r.ends("hello"); len(told) != 0 {
			t.Errorf("told is %q", told)
		}
	})
}
