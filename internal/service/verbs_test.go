package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
)

// three are a service's revisions: two that served, a third that serves, one
// that failed, one that is retired and one whose deploy has not ended.
func three() (Desired, Catalog, []Revision) {
	template := func(n int) Template { return Template{Command: []string{fmt.Sprint("r", n)}} }
	var revs []Revision
	for n, state := range []RevisionState{RevisionRetired, RevisionServing, RevisionServing, RevisionFailed, RevisionPending} {
		r := Revision{Name: RevisionName("s", int32(n+1)), Service: "s", Number: int32(n + 1), State: state, Template: template(n + 1)}
		if state == RevisionServing {
			r.Slots = []Slot{{ID: r.Name + ".0", Host: "a"}}
		}
		revs = append(revs, r)
	}
	d := Desired{Service: "s", Generation: 7, Instances: 1, Template: template(3)}
	c := Catalog{
		Service: "s", Latest: "s-00003", LastRevision: 5, Traffic: []CatalogPart{{Revision: "s-00003", Percent: 100}},
		Earlier: []EarlierTraffic{{Revision: "s-00002", Ended: time.Unix(60, 0)}, {Revision: "s-00001", Ended: time.Unix(30, 0)}},
	}
	return d, c, revs
}

func refusal(err error) string {
	var in *InputError
	if err != nil && !errors.As(err, &in) {
		return "not an InputError: " + err.Error()
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTrafficIsDividedAmongRevisionsThatCanTakeIt(t *testing.T) {
	for name, c := range map[string]struct {
		standing []Target
		group    string
		parts    []Target
		tags     map[string]string
		want     string
		refused  string
	}{
		"a split":                            {parts: []Target{{Revision: "s-00002", Percent: 90}, {Revision: "s-00003", Percent: 10}}, want: "[{s-00002 90 } {s-00003 10 }]"},
		"all to the latest":                  {standing: []Target{{Revision: "s-00002", Percent: 100}}, parts: []Target{{Revision: LatestRevision, Percent: 100}}, want: "[]"},
		"tags stay":                          {standing: []Target{{Percent: 100}, {Revision: "s-00002", Tag: "blue"}}, parts: []Target{{Revision: "s-00003", Percent: 100}}, want: "[{s-00003 100 } {s-00002 0 blue}]"},
		"only a tag":                         {tags: map[string]string{"blue": "s-00002"}, want: "[{ 100 } {s-00002 0 blue}]"},
		"a tag that moves":                   {standing: []Target{{Percent: 100}, {Revision: "s-00002", Tag: "blue"}}, tags: map[string]string{"blue": "s-00003"}, want: "[{ 100 } {s-00003 0 blue}]"},
		"a tag removed":                      {standing: []Target{{Percent: 100}, {Revision: "s-00002", Tag: "blue"}}, tags: map[string]string{"blue": ""}, want: "[]"},
		"a sum that is not 100":              {parts: []Target{{Revision: "s-00002", Percent: 90}}, refused: "adds up to 90"},
		"an unknown revision":                {parts: []Target{{Revision: "s-00009", Percent: 100}}, refused: `no revision "s-00009"`},
		"a failed revision":                  {parts: []Target{{Revision: "s-00004", Percent: 100}}, refused: "s-00004 failed"},
		"a retired revision":                 {parts: []Target{{Revision: "s-00001", Percent: 100}}, refused: "s-00001 is retired"},
		"a revision that is not ready":       {parts: []Target{{Revision: "s-00005", Percent: 100}}, refused: "s-00005 is not ready"},
		"a revision twice":                   {parts: []Target{{Revision: "s-00003", Percent: 50}, {Revision: "s-00003", Percent: 50}}, refused: "two shares"},
		"a failed revision by its tag":       {tags: map[string]string{"x": "s-00004"}, refused: "s-00004 failed"},
		"a tag that is not there":            {tags: map[string]string{"x": ""}, refused: `no tag "x"`},
		"nothing":                            {refused: "nothing to change"},
		"what stands":                        {standing: []Target{{Revision: "s-00002", Percent: 100}}, parts: []Target{{Revision: "s-00002", Percent: 100}}, refused: "already"},
		"two revisions of one shared group":  {group: "shared", parts: []Target{{Revision: "s-00002", Percent: 50}, {Revision: "s-00003", Percent: 50}}, refused: "share the request group"},
		"the latest in another's group":      {group: "shared", parts: []Target{{Revision: "s-00002", Percent: 50}, {Percent: 50}}, refused: "share the request group"},
		"one revision of a shared group":     {group: "shared", parts: []Target{{Revision: "s-00002", Percent: 100}}, want: "[{s-00002 100 }]"},
		"a tag and a share of one, the same": {group: "shared", parts: []Target{{Revision: "s-00003", Percent: 100}}, tags: map[string]string{"x": "s-00003"}, want: "[{s-00003 100 x}]"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, revs := three()
			d.Traffic, d.Template.Group = c.standing, c.group
			for i := range revs {
				revs[i].Template.Group = c.group
			}
			next, err := SetTraffic(d, c.parts, c.tags, revs)
			if c.refused != "" {
				if got := refusal(err); !strings.Contains(got, c.refused) {
					t.Errorf("refused with %q, want %q", got, c.refused)
				}
				return
			}
			if err != nil || fmt.Sprint(next.Traffic) != c.want || next.Generation != 8 {
				t.Errorf("generation %d, %v, %v; want %s", next.Generation, next.Traffic, err, c.want)
			}
		})
	}
}

func TestARollbackGoesToWhatServedBeforeAndSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(c *Catalog, revs []Revision)
		to      string
		want    string
		why     string
		warm    bool
		refused string
	}{
		"the one before":         {want: "s-00002", why: "before s-00003", warm: true},
		"one that was collected": {edit: func(c *Catalog, _ []Revision) { c.Earlier = c.Earlier[1:] }, want: "s-00001", why: "before s-00003"},
		"a canary": {edit: func(c *Catalog, _ []Revision) {
			c.Traffic = []CatalogPart{{Revision: "s-00002", Percent: 90}, {Revision: "s-00003", Percent: 10}}
		}, want: "s-00002", warm: true},
		"a rollback of a rollback goes on": {edit: func(c *Catalog, _ []Revision) {
			c.Traffic[0].Revision = "s-00002"
			c.Earlier = append([]EarlierTraffic{{Revision: "s-00003"}}, c.Earlier...)
		}, want: "s-00001"},
		"and never forward": {edit: func(c *Catalog, _ []Revision) {
			c.Traffic[0].Revision = "s-00001"
			c.Earlier = append([]EarlierTraffic{{Revision: "s-00003"}}, c.Earlier...)
		}, refused: "nothing to go back to"},
		"past one that failed meanwhile":       {edit: func(_ *Catalog, revs []Revision) { revs[1].State = RevisionFailed }, want: "s-00001"},
		"nothing serves":                       {edit: func(c *Catalog, _ []Revision) { c.Traffic = nil }, refused: "nothing serves s yet"},
		"the first revision":                   {edit: func(c *Catalog, _ []Revision) { c.Earlier = nil }, refused: "nothing to go back to"},
		"one that is named":                    {to: "s-00001", want: "s-00001", why: "it was named"},
		"one that failed, by its name only":    {to: "s-00004", want: "s-00004", why: "although its deploy failed"},
		"one that is not ready":                {to: "s-00005", refused: "not ready yet"},
		"one that is not there":                {to: "s-00009", refused: `no revision "s-00009"`},
		"the serving one, which is not pinned": {to: "s-00003", want: "s-00003", warm: true},
	} {
		t.Run(name, func(t *testing.T) {
			d, cat, revs := three()
			if c.edit != nil {
				c.edit(&cat, revs)
			}
			got, err := ChooseRollback(d, cat, revs, c.to)
			if c.refused != "" {
				if why := refusal(err); !strings.Contains(why, c.refused) {
					t.Errorf("refused with %q, want %q", why, c.refused)
				}
				return
			}
			if err != nil || got.Revision != c.want || got.Warm != c.warm || !strings.Contains(got.Reason, c.why) || got.Reason == "" {
				t.Errorf("%+v, %v; want %s because %q", got, err, c.want, c.why)
			}
		})
	}
}

func TestARollbackPinsTrafficAndBringsConfigurationBack(t *testing.T) {
	d, c, revs := three()
	d.Traffic = []Target{{Percent: 100}, {Revision: "s-00003", Tag: "green"}}
	d.Paused, d.Aborted = true, 3
	choice, err := ChooseRollback(d, c, revs, "")
	if err != nil {
		t.Fatal(err)
	}
	next := Rollback(d, choice, revs)
	if next.Generation != 8 || next.Template.Command[0] != "r2" || fmt.Sprint(next.Traffic) != "[{s-00002 100 } {s-00003 0 green}]" || next.Paused || next.Aborted != 0 {
		t.Errorf("%+v", next)
	}
	if next.Pinned() == "" {
		t.Error("traffic is not pinned")
	}
	c.Traffic[0].Revision = "s-00002"
	if _, err := ChooseRollback(next, c, revs, "s-00002"); !strings.Contains(refusal(err), "already") {
		t.Errorf("again: %v", err)
	}
}

func TestAbortAsksForWhatServesAndIsRefusedWhenNothingIsInProgress(t *testing.T) {
	d, c, revs := three()
	d.Template, d.Paused = revs[4].Template, true
	if _, err := Abort(d, c, revs, nil); !strings.Contains(refusal(err), "nothing to abort") {
		t.Errorf("nothing in progress: %v", err)
	}
	ended := []saga.Record{{Kind: WorkDeploy, State: saga.Done, Generation: 7}, {Kind: WorkCollect, State: saga.Running, Generation: 7}}
	if _, err := Abort(d, c, revs, ended); !strings.Contains(refusal(err), "nothing to abort") {
		t.Errorf("only ended ones: %v", err)
	}
	open := []saga.Record{{Kind: WorkDeploy, State: saga.Waiting, Subject: "s-00005", Generation: 7}}
	next, err := Abort(d, c, revs, open)
	if err != nil || next.Generation != 8 || next.Aborted != 7 || next.Template.Command[0] != "r3" || next.Paused {
		t.Fatalf("%+v, %v", next, err)
	}
	if _, err := Abort(next, c, revs, open); !strings.Contains(refusal(err), "being ended already") {
		t.Errorf("twice: %v", err)
	}
	d.Traffic = []Target{{Revision: "s-00002", Percent: 100}}
	next, err = Abort(d, c, revs, []saga.Record{{Kind: WorkTraffic, State: saga.Running, Generation: 7}})
	if err != nil || next.Traffic != nil || next.Template.Command[0] != "r5" {
		t.Errorf("a change of traffic: %+v, %v", next, err)
	}
}

func TestAbortOfAScaleAsksForTheNumberThatWasReachedOrSaysWhatToDo(t *testing.T) {
	d, c, revs := three()
	d.Instances, c.Instances = 5, 2
	open := []saga.Record{{Kind: WorkScale, State: saga.Waiting, Generation: 7}}
	next, err := Abort(d, c, revs, open)
	if err != nil || next.Instances != 2 || next.Aborted != 7 || next.Template.Command[0] != d.Template.Command[0] {
		t.Errorf("%+v, %v", next, err)
	}
	for _, reached := range []int{0, 5} {
		c.Instances = reached
		_, err := Abort(d, c, revs, open)
		var input *InputError
		if !errors.As(err, &input) || !strings.Contains(input.Problem, "no other number") || !strings.Contains(input.Hint, "fairlead scale s N") {
			t.Errorf("with %d reached: %v", reached, err)
		}
	}
}

func TestPauseAndResumeEachRefuseWhenThereIsNothingToDo(t *testing.T) {
	d, _, _ := three()
	if _, err := Resume(d); !strings.Contains(refusal(err), "nothing to resume") {
		t.Errorf("resume: %v", err)
	}
	paused, err := Pause(d)
	if err != nil || !paused.Paused || paused.Generation != 8 {
		t.Fatalf("%+v, %v", paused, err)
	}
	if _, err := Pause(paused); !strings.Contains(refusal(err), "paused already") {
		t.Errorf("pause twice: %v", err)
	}
	resumed, err := Resume(paused)
	if err != nil || resumed.Paused || resumed.Generation != 9 {
		t.Errorf("%+v, %v", resumed, err)
	}
	d.Deleted = true
	for _, f := range []func(Desired) (Desired, error){Pause, Resume} {
		if _, err := f(d); refusal(err) == "" {
			t.Error("a tombstone was taken")
		}
	}
}

func TestAScaleARestartAndAChangeOfTrafficDoNotAskAgainForWhatRuns(t *testing.T) {
	d := Desired{Service: "s", Generation: 4, Instances: 1, Template: Template{Command: []string{"x"}}}
	scaled, err := d.Scale(2, Author{})
	if err != nil {
		t.Fatal(err)
	}
	moved, err := SetTraffic(scaled.Restart(Author{}), nil, map[string]string{"blue": LatestRevision}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if moved.Generation != 7 || moved.AskedAt() != 4 {
		t.Errorf("generation %d asked at %d", moved.Generation, moved.AskedAt())
	}
	again, err := Deploy(&moved, "s", DeployEdit{Template: d.Template}, Catalog{})
	if err != nil || again.AskedAt() != 8 {
		t.Errorf("a deploy asks at %d, %v", again.AskedAt(), err)
	}
}
