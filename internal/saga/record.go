// Package saga runs durable, step-wise operations: each step's completion is
// recorded before the next begins, a killed run resumes where the record says,
// and a failed attempt is compensated by looking at the world, never by step
// number. It knows nothing of services. Read [Record] first.
package saga

import (
	"maps"
	"slices"
	"time"
)

// State is what a saga is doing.
//
//	running ──► done
//	   │ ▲
//	   ▼ │ RetryAt
//	 waiting ──► ended (superseded, failed by abort)
//	   │
//	   └──────► parked (needs-operator: unreadable, newer, or an undo that failed)
type State string

const (
	Running      State = "running"
	Compensating State = "compensating"
	Waiting      State = "waiting" // an attempt failed; tried again at RetryAt
	Done         State = "done"
	Failed       State = "failed"     // ended without its effect; not tried again
	Superseded   State = "superseded" // a later intent won
	Parked       State = "parked"     // needs an operator
)

// Record is the durable state of one saga. It says how far a resume has got,
// not that the effects of its done steps still stand.
type Record struct {
	// ID is derived from the owner, the subject and the instant it was minted.
	ID   string `json:"id"`
	Kind string `json:"kind"` // deploy, scale, restart, delete, collect
	// Definition is the version of the kind's definition that wrote it.
	Definition int    `json:"definition"`
	Owner      string `json:"owner"`             // the service
	Subject    string `json:"subject,omitempty"` // the revision
	Generation int32  `json:"generation"`
	// Attempt counts from 1; a resume after a crash is the same attempt.
	Attempt int32  `json:"attempt"`
	State   State  `json:"state"`
	Steps   []Step `json:"steps"`
	// Error, Reason for people, of the last failed attempt.
	Error string `json:"error,omitempty"`
	// FailedStep of the last failed attempt.
	FailedStep string   `json:"failedStep,omitempty"`
	LastLines  []string `json:"lastLines,omitempty"`
	// RetryAt is shown; the wait itself runs on the leader's monotonic clock.
	RetryAt time.Time     `json:"retryAt,omitzero"`
	Backoff time.Duration `json:"backoff,omitempty"`
	// Held says that a person holds it before its next step; empty means not.
	Held string `json:"held,omitempty"`
	// Effects that this attempt caused, by name, e.g. "published" → plan's saga mark.
	Effects map[string]string `json:"effects,omitempty"`
	Started time.Time         `json:"started"`
	Ended   time.Time         `json:"ended,omitzero"`
}

// Step is one step's record.
type Step struct {
	Name string `json:"name"`
	// State is "" (not begun), running, done or failed.
	State string `json:"state,omitempty"`
	// Text says what happened, for people, e.g. "2 instances on 2 hosts".
	Text  string        `json:"text,omitempty"`
	Began time.Time     `json:"began,omitzero"`
	Took  time.Duration `json:"took,omitempty"`
}

// Open says that the saga has not ended.
func (r Record) Open() bool {
	switch r.State {
	case Done, Failed, Superseded:
		return false
	}
	return true
}

// At returns the first step that is not done, or "" when all are.
func (r Record) At() string {
	for _, s := range r.Steps {
		if s.State != "done" {
			return s.Name
		}
	}
	return ""
}

// clone shares nothing with r that a run changes.
func (r Record) clone() Record {
	r.Steps = slices.Clone(r.Steps)
	r.LastLines = slices.Clone(r.LastLines)
	r.Effects = maps.Clone(r.Effects)
	return r
}
