package discovery

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evaluate"
	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// Record is one transition as the store keeps it: what a person reads of it,
// and the state that a rebuild starts from.
type Record struct {
	Service  string    `json:"service"`
	Instance string    `json:"instance"`
	At       time.Time `json:"at"` // shown, never decided by
	Tick     int64     `json:"tick"`

	From     eligibility.Verdict  `json:"from"`
	FromRule eligibility.Rule     `json:"fromRule"`
	To       eligibility.Verdict  `json:"to"`
	Rule     eligibility.Rule     `json:"rule"`
	Weight   eligibility.Permille `json:"weight"`
	// Quarantined says that this change began a quarantine.
	Quarantined bool `json:"quarantined,omitempty"`

	Why     string   `json:"why"`
	Classes []string `json:"classes"` // what each class of evidence said
	Next    string   `json:"next"`    // what would change it

	// Late says that it was in force before it was recorded: the store had not
	// answered in time.
	Late bool `json:"late,omitempty"`

	Row   registry.Instance `json:"row"`
	State eligibility.State `json:"state"`
}

func recordOf(t evaluate.Transition, row registry.Instance, at time.Time) Record {
	why := t.Account()
	return Record{
		Service: t.Service, Instance: t.Instance, At: at, Tick: t.Tick,
		From: t.From, FromRule: t.FromRule, To: t.To, Rule: t.Rule, Weight: t.Weight, Quarantined: t.Quarantined,
		Why: why.Why, Classes: why.Classes, Next: why.Next,
		Row: row, State: t.State,
	}
}

// key is in the order of ticks within a service; an instance has one change in
// a tick at most.
func (r Record) key() store.Key {
	return store.Key{Kind: service.KindTransition, Name: fmt.Sprintf("%s.%012d.%d", r.Service, r.Tick, r.Row.Handle)}
}

// write may be repeated: the record says the same each time.
func (r Record) write() store.Write {
	b, err := json.Marshal(r)
	if err != nil { // it holds nothing that JSON cannot say
		panic("discovery: cannot encode a transition: " + err.Error())
	}
	return store.Write{Key: r.key(), Any: true, Body: b}
}

func erase(k store.Key) store.Write { return store.Write{Key: k, Any: true, Delete: true} }
