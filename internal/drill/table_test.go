package drill

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/view"
)

func at(epoch, counter uint64) view.Version {
	return view.Version{Incarnation: "i", Epoch: epoch, Counter: counter}
}

func gateway(name string, serves view.Version) routing.Router {
	return routing.Router{Role: "gateway", Name: name, Serves: serves, Keeps: serves, View: at(1, 5), Connected: true}
}

func caller(name string, holds view.Version) routing.Router {
	return routing.Router{Role: "service", Name: name, View: holds, Connected: true}
}

func standing(published view.Version, routers ...routing.Router) routing.Standing {
	return routing.Standing{Service: "payments", Published: published, Routers: routers, Callers: len(routers)}
}

// asked is a drill of a minute that begins by one table and ends by another.
func asked(before, after routing.Standing) *Drill {
	d := Begin("x", time.Minute, nil, []routing.Standing{before}, 0)
	d.Answered(time.Minute)
	d.See(time.Minute+sec, nil)
	d.Ask(time.Minute+sec, []routing.Standing{after})
	return d
}

func TestBeforeADrillBeginsItIsSaidByNameWhoWouldNotSurviveIt(t *testing.T) {
	behind := gateway("late", at(1, 3))
	behind.MayRoute, behind.Until = []string{"payments-00001"}, "it acknowledges"
	away := gateway("gone", at(1, 4))
	away.Connected = false
	disk := gateway("disk", at(1, 4))
	disk.Keeps, disk.MayRoute = at(1, 3), []string{"payments-00001"}
	s := standing(at(1, 5), gateway("g", at(1, 4)), gateway("new", view.Version{}), behind, away, disk, caller("web", at(1, 5)), caller("job", view.Version{}))
	s.Unheard = []string{"relay/r1"}
	want := []string{
		"gateway/disk serves table i/1/4 and has i/1/3 on its disk: it may route payments to payments-00001, at the latest when it is started anew",
		"gateway/gone is not heard: it routes by what it held, if it lives",
		"gateway/late is behind: it serves table i/1/3, by which it may route payments to payments-00001",
		"gateway/new serves no table: requests there have nowhere to go",
		"relay/r1 did not say who subscribes there",
		"service/job holds no view of payments: its calls there have nowhere to go",
	}
	if got := Doubts([]routing.Standing{s}); !slices.Equal(got, want) {
		t.Errorf("said:\n%s", strings.Join(got, "\n"))
	}
	// Of a service without a view nobody could hold one, whether control is there or not.
	if got := Doubts([]routing.Standing{standing(view.Version{}, caller("job", view.Version{}))}); got != nil {
		t.Errorf("said: %q", got)
	}
}

func TestAtTheEndOfADrillEverybodyInTheTableBeforeIsAskedForAndThoseMissingAreNamed(t *testing.T) {
	before := standing(at(1, 5), gateway("g", at(1, 4)), gateway("h", at(1, 4)), caller("web", at(1, 5)), caller("web", at(1, 5)), caller("job", at(1, 5)), caller("own", at(1, 5)))
	good := standing(at(2, 5), gateway("g", at(2, 4)), gateway("h", at(2, 4)), caller("web", at(2, 5)), caller("web", at(2, 5)), caller("job", at(1, 5)), caller("own", at(2, 5)), caller("another", view.Version{}))
	d := asked(before, good)
	if v := d.Verdict(); d.State != Over || !v.Held || v.Asked != 5 {
		t.Errorf("all are back: %s, %+v", d.State, v)
	}
	if r := d.router("service", "job"); r.Services != 1 || r.Current != 0 || len(r.Against) > 0 {
		t.Errorf("one that holds what it held: %+v", r)
	}

	left := caller("job", at(1, 5))
	left.Connected = false
	d = asked(before, standing(at(2, 5), gateway("g", at(2, 4)), gateway("h", view.Version{}), caller("web", at(2, 5)), left, caller("own", view.Version{})))
	if d.State != Return {
		t.Error("it does not wait for those who are missing")
	}
	d.Ask(time.Minute+returnWithin, []routing.Standing{standing(at(2, 5), gateway("g", at(2, 4)), gateway("h", view.Version{}), caller("web", at(2, 5)), left, caller("own", view.Version{}))})
	v := d.Verdict()
	want := "4 of 5 do not stand in the table of who may route as before: gateway/h serves no table any more; service/job 1 of 1 that route payments are missing; " +
		"service/own holds no view of payments any more; service/web 1 of 2 that route payments are missing"
	if v.Held || d.State != Over || strings.Join(v.Against, "\n") != want {
		t.Errorf("%s: %+v", d.State, v)
	}
}

func TestAnEarlierViewOrTableThanBeforeTheDrillSpeaksAgainstTheClaim(t *testing.T) {
	before := standing(at(3, 5), gateway("g", at(3, 4)), caller("web", at(3, 5)))
	d := asked(before, standing(at(4, 6), gateway("g", at(3, 3)), caller("web", at(3, 4))))
	d.Ask(time.Minute+returnWithin, []routing.Standing{standing(at(4, 6), gateway("g", at(3, 3)), caller("web", at(3, 4)))})
	v := d.Verdict()
	if text := strings.Join(v.Against, ""); v.Held || !strings.Contains(text, "gateway/g serves table i/3/3") || !strings.Contains(text, "service/web holds view i/3/4 of payments, which is earlier") {
		t.Errorf("%+v", v)
	}
}

func TestOfThoseWhoAreTooManyToBeNamedTheNumberIsAskedFor(t *testing.T) {
	before := standing(at(1, 5), caller("web", at(1, 5)))
	before.More, before.Callers = 4000, 4001
	after := before
	after.Routers, after.Callers = []routing.Router{caller("job", at(1, 5))}, 3990
	after.Unheard = []string{"relay/r1"}
	d := asked(before, after)
	d.Ask(time.Minute+returnWithin, []routing.Standing{after})
	if v := d.Verdict(); v.Held || strings.Join(v.Against, "; ") != "11 of 4001 that hold the view of payments are missing; relay/r1 does not say who subscribes there" {
		t.Errorf("%+v", v)
	}
	ended := after
	ended.Ending = true
	if v := asked(before, ended).Verdict(); !v.Held {
		t.Errorf("of a service that a person ended meanwhile: %+v", v)
	}
}

func TestWhoComesBackByARelayIsBackAndWhoWasLongerWithoutAStreamThanTheDrillExplainsIsNamed(t *testing.T) {
	before := there("service/web", "service/slow", "service/deaf")
	table := standing(at(1, 5), caller("web", at(1, 5)), caller("slow", at(1, 5)), caller("deaf", at(1, 5)))
	d := Begin("x", time.Minute, before, []routing.Standing{table}, 0)
	d.Answered(time.Minute)
	after := before[1:2]
	after[0].Said = &Said{Away: 100 * sec, Calls: 1}
	d.See(time.Minute+40*sec, after)
	deaf := there("service/deaf")
	deaf[0].Said = &Said{Away: 10 * time.Minute, Calls: 1}
	d.See(time.Minute+41*sec, deaf)
	if !d.Asks(time.Minute + 41*sec) {
		t.Error("the table is not looked at where a stream is missing")
	}
	web := &table.Routers[0]
	web.Via, web.Away = "r1", &routing.Away{For: 3 * sec, Calls: 7}
	d.Ask(time.Minute+41*sec, []routing.Standing{table})
	v := d.Verdict()
	text := strings.Join(v.Notes, "\n")
	for _, want := range []string{
		"were without a stream for longer than the drill explains (10s after it): service/deaf (41s), service/slow (40s)",
		"had heard nobody since before the drill, though they seemed to be connected: service/deaf (8m19s before)",
		"went over to a relay meanwhile: service/web",
		"who follows a relay counts no call as made without control",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if d.State != Over || !v.Held || v.Calls != 9 {
		t.Errorf("%s, %+v", d.State, v)
	}
}
