package discovery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

// Kinds of a service's alarms; each is a label of the metric.
const (
	AlarmLast    = "last-eligible" // nothing of the service is in rotation by its verdict: the gravest
	AlarmGuard   = "guard"         // health is disregarded somewhere: too little would have been left
	AlarmUnseen  = "observation"   // at least half of what is to be seen is seen by nobody
	AlarmBudget  = "withdrawals"   // callers did not hear in time that an instance is out
	AlarmFailing = "failing"       // most requests fail, whichever instance they go to
	AlarmCallers = "callers"       // callers of a zone or a revision fail everywhere, and others do not
)

// Alarm is one that is in force for a service.
type Alarm struct {
	Kind  string
	Text  string
	Since time.Time // shown, never decided by
}

// watch raises and clears a service's alarms by what was just assembled of it.
func (t *term) watch(name string, p evaluate.Published) {
	lost := ""
	if p.Lost {
		lost = "no instance is in rotation by its verdict, and none left by plan"
	}
	t.alarm(name, AlarmLast, lost)
	var tripped []string
	mode := view.ServeAll
	for _, s := range t.followTrips(name) {
		tripped, mode = append(tripped, s.told(name)), s.Mode
	}
	guard := ""
	if len(tripped) > 0 {
		guard = guardDoes[mode] + strings.Join(tripped, "; ")
	}
	t.alarm(name, AlarmGuard, guard)
	unseen := ""
	if n, all := t.eval.Unseen(name); n > 0 && 2*n >= all {
		unseen = fmt.Sprintf("observation is lost: %d of %d instances are seen by nobody, and stay as they are", n, all)
	}
	t.alarm(name, AlarmUnseen, unseen)
}

// charged raises and clears the alarms of callers that fail everywhere, while
// others do well at the same instances.
func (t *term) charged() {
	texts := map[string][]string{} // :: service → who is charged
	for _, c := range t.ingest.Charges() {
		texts[c.Service] = append(texts[c.Service], "callers of "+eligibility.Charged{Revision: c.Revision, Caller: c.Caller}.Name()+" fail everywhere, others do not: charged to them, and to no instance")
	}
	for name := range t.known {
		t.alarm(name, AlarmCallers, strings.Join(texts[name], "; "))
	}
}

// propagation raises and clears the alarms of who was told too late.
func (t *term) propagation() {
	missed := t.p.cfg.Views.Missed()
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.alarms {
		if missed[name] == "" {
			t.alarm(name, AlarmBudget, "")
		}
	}
	for name, text := range missed {
		if t.known[name] {
			t.alarm(name, AlarmBudget, text)
		}
	}
}

// guardDoes :: mode → what a guard that has tripped does
var guardDoes = map[view.GuardMode]string{
	view.ServeAll:      "the fraction guard disregards health: ",
	view.HoldForPerson: "the fraction guard holds what was in rotation: ",
	view.Honour:        "health is followed below the guard's fraction: ",
}

// alarm raises one, or changes its text, or clears it where there is none. That
// it came and went is in the service's events.
func (t *term) alarm(name, kind, text string) {
	was, is := t.alarms[name][kind]
	switch {
	case text == "" && !is:
		return
	case text == "":
		delete(t.alarms[name], kind)
		t.log.Info("alarm is over", "service", name, "alarm", kind)
		t.event(name, "over: "+was.Text)
		return
	case is:
		was.Text = text
	default:
		was = Alarm{Kind: kind, Text: text, Since: t.p.cfg.Now().UTC()}
		t.log.Error("alarm: "+text, "service", name, "alarm", kind)
		t.event(name, text)
	}
	if t.alarms[name] == nil {
		t.alarms[name] = map[string]Alarm{}
	}
	t.alarms[name][kind] = was
}

// event puts a line into the history of a service that has one: a teardown
// erases it, and nothing is added to it from then on.
func (t *term) event(name, text string) {
	if !t.lead.Lives(name) {
		return
	}
	e := service.Event{Service: name, At: t.p.cfg.Now().UTC(), Kind: "alarm", Text: text}
	b, err := json.Marshal(e)
	if err != nil { // it holds nothing that JSON cannot say
		panic("discovery: cannot encode an event: " + err.Error())
	}
	t.records.post(store.Write{Key: store.Key{Kind: service.KindEvent, Name: name + "." + ulid.Make().String()}, Any: true, Body: b})
}

// ServiceAlarms are those in force for a service, the gravest first.
func (p *Plane) ServiceAlarms(name string) (out []Alarm) {
	t := p.current()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, kind := range []string{AlarmLast, AlarmGuard, AlarmUnseen, AlarmFailing, AlarmCallers, AlarmBudget} {
		if a, is := t.alarms[name][kind]; is {
			out = append(out, a)
		}
	}
	return out
}

// mostPosts wait for a store that does not answer.
const mostPosts = 1000

// post has something written with the next transitions.
func (r *records) post(w store.Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posts, r.staged = append(r.posts, w), true
	if over := len(r.posts) - mostPosts; over > 0 && r.posting == 0 {
		r.posts = slices.Delete(r.posts, 0, over)
	}
}
