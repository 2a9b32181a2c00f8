package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// alarmed are the kinds of alarms in force, and those that the metric shows.
func (l *leading) alarmed(t *testing.T) string {
	t.Helper()
	synctest.Wait()
	var out []string
	for _, a := range l.ServiceAlarms("s") {
		out = append(out, a.Kind)
		if a.Text == "" || a.Since.IsZero() {
			t.Errorf("an alarm says %+v", a)
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(newRuntimeCollector(l.Plane))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, f := range families {
		if f.GetName() == "fairlead_discovery_alarms" {
			shown = len(f.GetMetric())
		}
	}
	if shown != len(out) {
		t.Errorf("the metric shows %d alarms of %d", shown, len(out))
	}
	return strings.Join(out, " ")
}

// events of kind alarm, oldest first.
func (r *rig) events() (out []string) {
	r.t.Helper()
	docs, _, err := r.store.List(context.Background(), service.KindEvent)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range docs {
		var e service.Event
		if err := json.Unmarshal(d.Body, &e); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, fmt.Sprint(e.Service, " ", e.Kind, " ", e.Text))
	}
	return out
}

func TestTheLastEligibleInstanceAndTheGuardAreAlarmsUntilTheyAreOver(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		expect := func(want string) {
			t.Helper()
			if got := l.alarmed(t); got != want {
				t.Errorf("alarms are %q, want %q", got, want)
			}
		}
		expect("")
		for i, want := range []string{"", "", "guard", "last-eligible guard"} {
			r.hosts.set(fmt.Sprint("i", i+1), service.InstanceStarting)
			time.Sleep(2 * time.Second)
			expect(want)
		}
		for i := range 4 {
			r.hosts.set(fmt.Sprint("i", i+1), service.InstanceLive)
		}
		time.Sleep(40 * time.Second)
		expect("")
		want := []string{
			"s alarm the fraction guard disregards health: of s-00001 in z only 1 of 4 are in rotation by their verdicts",
			"s alarm no instance is in rotation by its verdict, and none left by plan",
			"s alarm over: no instance is in rotation by its verdict, and none left by plan",
			"s alarm over: the fraction guard disregards health: of s-00001 in z only 0 of 4 are in rotation by their verdicts",
		}
		if d := cmp.Diff(want, r.events()); d != "" {
			t.Error(d)
		}
	})
}

func TestLostObservationIsAnAlarmAndNobodyLeaves(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(40 * time.Second)
		r.hosts.edit(func() { r.hosts.silent = time.Minute })
		time.Sleep(40 * time.Second)
		if got := l.alarmed(t); got != "observation" {
			t.Errorf("alarms are %q", got)
		}
		r.expect(l, "i1 unknown unseen, i2 unknown unseen, i3 unknown unseen")
		r.hosts.edit(func() { r.hosts.silent = 0 })
		time.Sleep(15 * time.Second) // what is as before is told once in ten
		if got := l.alarmed(t); got != "" {
			t.Errorf("alarms are %q after it is seen again", got)
		}
	})
}

func TestAMissedBudgetOfWithdrawalsIsAnAlarmUntilItIsKept(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		f := &follower{r: r}
		r.views = f
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		f.say(map[string]string{"s": "too late: gateway/g1", "unknown": "?"})
		time.Sleep(2 * time.Second)
		if got := l.alarmed(t); got != "withdrawals" {
			t.Errorf("alarms are %q", got)
		}
		f.say(nil)
		time.Sleep(2 * time.Second)
		if got := l.alarmed(t); got != "" {
			t.Errorf("alarms are %q once it is kept", got)
		}
		if d := cmp.Diff([]string{"s alarm too late: gateway/g1", "s alarm over: too late: gateway/g1"}, r.events()); d != "" {
			t.Error(d)
		}
	})
}

func TestAPlannedStopIsNoAlarm(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		r.hosts.set("i1", service.InstanceDraining)
		r.hosts.set("i2", service.InstanceDraining)
		time.Sleep(3 * time.Second)
		if got := l.alarmed(t); got != "" {
			t.Errorf("alarms are %q", got)
		}
	})
}

func TestAZoneOfCallersThatFailsEverywhereIsAnAlarmAndNobodyLeaves(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(3)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		callers := map[string]*Reporter{}
		for _, zone := range []string{"a", "b", "c"} {
			callers[zone] = l.Reporter("caller/" + zone)
			callers[zone].From(evidence.Caller{Zone: zone, Revision: "shop-00001"})
		}
		number := uint64(0)
		seconds := func(n int, bad string) {
			for range n {
				number++
				for zone, c := range callers {
					seen := []Outcome{}
					for _, id := range []string{"i1", "i2", "i3"} {
						o := Outcome{Instance: id, OK: 10}
						if zone == bad {
							o = Outcome{Instance: id, Failed: 10, Refused: 10}
						}
						seen = append(seen, o)
					}
					c.Take(number, seen)
				}
				time.Sleep(time.Second)
			}
		}
		seconds(5, "")
		if got := l.alarmed(t); got != "" {
			t.Errorf("alarms are %q to begin with", got)
		}
		seconds(20, "b")
		if got := l.alarmed(t); got != "callers" {
			t.Errorf("alarms are %q", got)
		}
		r.expect(l, "i1 eligible serving, i2 eligible serving, i3 eligible serving")
		seconds(20, "")
		if got := l.alarmed(t); got != "" {
			t.Errorf("alarms are %q once they do well", got)
		}
		text := "callers of zone b fail everywhere, others do not: charged to them, and to no instance"
		if d := cmp.Diff([]string{"s alarm " + text, "s alarm over: " + text}, r.events()); d != "" {
			t.Error(d)
		}
	})
}
