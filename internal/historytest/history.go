// Package historytest reads a service's history, as it is stored and as
// `fairlead events` shows it, and refuses an order of events that cannot be.
// It knows nothing but the lines, so that harnesses in virtual time and tests
// of processes are judged by one automaton. Read [Check] first.
package historytest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// Check says of the first event that cannot follow those before it why not.
// The events are a service's, oldest first. As many as are kept may be the end
// of a longer history: then nothing is said of what began before it.
func Check(events []service.Event) error {
	h := &history{deploys: map[string]*deploy{}, whole: len(events) < service.KeptEvents}
	for i, e := range events {
		if err := h.take(e); err != nil {
			return fmt.Errorf("event %d of %d (generation %d, %s, attempt %d, %s: %s): %w", i+1, len(events), e.Generation, e.Revision, e.Attempt, e.Kind, e.Text, err)
		}
	}
	return nil
}

// Parse reads what `fairlead events NAME -o json` prints.
func Parse(b []byte) ([]service.Event, error) {
	var list struct{ Events []service.Event }
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("cannot read a history: %w", err)
	}
	return list.Events, nil
}

// steps of a deploy, in order.
var steps = [...]string{"queue", "install", "instances", "ready", "routes", "finalize"}

const ready, finalize = 3, 5

type history struct {
	whole    bool
	deploys  map[string]*deploy // :: revision → its deploy
	highest  int                // number of a revision
	needs    bool               // an operator
	deleted  int32              // generation of the newest deletion that was asked for
	routed   []string           // by the newest plan of which the history tells
	recorded []string           // in the catalog
}

// deploy is one revision's.
type deploy struct {
	at         int // the step that is done
	attempt    int32
	generation int32
	failing    bool // failed, and not undone
	waiting    bool
	over       string // how it ended
}

var (
	stepLine = regexp.MustCompile(`^(deploy|traffic|scale|restart|collect|delete) (\w+): ?(.*)$`)
	failLine = regexp.MustCompile(`^(deploy|traffic|scale|restart|collect|delete) (?:(failed) at \w*: |(waits) \S+ for its next attempt$|(ended): )`)
	heldLine = regexp.MustCompile(`^(deploy|traffic): it is paused before \w+`)
	leads    = regexp.MustCompile(`(held: )?\d+% to (\S+?)(?: \(tag [^)]*\))?(?:,|$)`)
	serves   = regexp.MustCompile(`(\S+) serves `)
)

func (h *history) take(e service.Event) error {
	switch e.Kind {
	case "desired":
		if strings.HasPrefix(e.Text, "delete") {
			h.deleted = max(h.deleted, e.Generation)
		}
		return nil
	case "repair":
		if strings.HasSuffix(e.Text, "published again") {
			h.routed = h.recorded
		}
		return nil
	case "needs-operator":
		return h.needed(e)
	case "instance", "alarm":
		return nil // it may end, and its health may alarm, at any time
	case "routes":
		return h.published(e)
	case "step":
		if m := failLine.FindStringSubmatch(e.Text); m != nil {
			return h.failed(e, m[1], m[2]+m[3]+m[4])
		}
		if m := stepLine.FindStringSubmatch(e.Text); m != nil {
			return h.done(e, m[1], m[2], m[3])
		}
		if heldLine.MatchString(e.Text) {
			return nil
		}
	}
	return fmt.Errorf("it is of no kind that is known")
}

// needed takes that an operator is needed, or is no more.
func (h *history) needed(e service.Event) error {
	ends := strings.HasPrefix(e.Text, "needs no operator any more")
	if ends && h.whole && !h.needs {
		return fmt.Errorf("an operator was not needed")
	}
	h.needs = !ends
	return nil
}

// of gives the deploy that the event is of; nil where it began before the history.
func (h *history) of(e service.Event) (*deploy, error) {
	d := h.deploys[e.Revision]
	switch {
	case d == nil && h.whole:
		return nil, fmt.Errorf("%s was never minted in this life of the service", e.Revision)
	case d == nil:
		return nil, nil
	case d.over != "":
		return nil, fmt.Errorf("the deploy of %s has ended: %s", e.Revision, d.over)
	case e.Attempt < d.attempt:
		return nil, fmt.Errorf("it is of attempt %d, after one of attempt %d", e.Attempt, d.attempt)
	case e.Generation < d.generation:
		return nil, fmt.Errorf("it is of generation %d, after one of generation %d", e.Generation, d.generation)
	}
	d.generation = e.Generation
	return d, nil
}

// done takes a step that is done.
func (h *history) done(e service.Event, kind, step, text string) error {
	switch {
	case kind == "deploy":
		return h.deployed(e, slices.Index(steps[:], step), text)
	case kind == "traffic" && step == "record":
		h.record(text)
	case kind == "collect" && (strings.HasSuffix(text, "is retired") || strings.Contains(text, "instance")):
		return h.collected(e)
	}
	return nil
}

func (h *history) deployed(e service.Event, step int, text string) error {
	if step == 0 {
		return h.minted(e)
	}
	d, err := h.of(e)
	if d == nil {
		return err
	}
	switch {
	case step < 0:
		return fmt.Errorf("a deploy has no such step")
	case d.failing:
		return fmt.Errorf("a step is done of an attempt that has failed and is not undone")
	case d.waiting && e.Attempt == d.attempt:
		return fmt.Errorf("attempt %d goes on after it has failed", d.attempt)
	case !d.waiting && e.Attempt > d.attempt:
		return fmt.Errorf("attempt %d begins, and attempt %d has not failed", e.Attempt, d.attempt)
	case step > d.at+1:
		return fmt.Errorf("%s is done before %s", steps[step], steps[d.at+1])
	}
	d.at, d.attempt, d.waiting = step, e.Attempt, false
	if step == finalize {
		d.over = "it is finalized"
		h.record(text)
	}
	return nil
}

func (h *history) minted(e service.Event) error {
	n, err := strconv.Atoi(e.Revision[strings.LastIndexByte(e.Revision, '-')+1:])
	switch {
	case err != nil:
		return fmt.Errorf("%q is no revision", e.Revision)
	case h.deploys[e.Revision] != nil:
		return fmt.Errorf("%s is minted twice", e.Revision)
	case n <= h.highest:
		return fmt.Errorf("%s is minted after revision %d", e.Revision, h.highest)
	case e.Generation <= h.deleted:
		return fmt.Errorf("generation %d mints a revision, and generation %d has deleted the service", e.Generation, h.deleted)
	}
	h.highest = n
	h.deploys[e.Revision] = &deploy{attempt: e.Attempt, generation: e.Generation}
	return nil
}

// failed takes how an attempt ended.
func (h *history) failed(e service.Event, kind, how string) error {
	if kind == "traffic" && how != "failed" {
		h.routed = h.recorded // it is put back
	}
	if kind != "deploy" {
		return nil
	}
	d, err := h.of(e)
	if d == nil {
		return err
	}
	d.attempt, d.failing, d.waiting = e.Attempt, how == "failed", how == "waits"
	if how == "ended" {
		d.over = e.Text
	}
	if how != "failed" {
		h.routed = h.recorded
	}
	return nil
}

// published takes a plan: it may lead to what is ready, and to what was finalized.
func (h *history) published(e service.Event) error {
	plan, ok := strings.CutPrefix(e.Text, "published: ")
	if !ok {
		return fmt.Errorf("it says nothing of what is published")
	}
	h.routed = nil
	for _, m := range leads.FindAllStringSubmatch(plan, -1) {
		if m[1] != "" {
			continue // held: nobody is led there
		}
		h.routed = append(h.routed, m[2])
		d := h.deploys[m[2]]
		switch {
		case d == nil && h.whole:
			return fmt.Errorf("requests are led to %s, which was never minted in this life of the service", m[2])
		case d == nil:
		case m[2] == e.Revision && (d.at < ready || d.failing || d.waiting && e.Attempt == d.attempt):
			return fmt.Errorf("requests are led to %s, which is not ready", m[2])
		case m[2] != e.Revision && d.at < finalize:
			return fmt.Errorf("requests are led to %s, whose deploy is not finalized", m[2])
		}
	}
	return nil
}

func (h *history) record(text string) {
	h.recorded = nil
	for _, m := range serves.FindAllStringSubmatch(text, -1) {
		h.recorded = append(h.recorded, m[1])
	}
	h.routed = h.recorded
}

func (h *history) collected(e service.Event) error {
	switch d := h.deploys[e.Revision]; {
	case d == nil && h.whole:
		return fmt.Errorf("%s was never minted in this life of the service", e.Revision)
	case d != nil && d.over == "":
		return fmt.Errorf("%s is collected, and its deploy goes on", e.Revision)
	case slices.Contains(h.routed, e.Revision):
		return fmt.Errorf("%s is collected, and requests are led to it", e.Revision)
	case slices.Contains(h.recorded, e.Revision):
		return fmt.Errorf("%s is collected, and the catalog has it", e.Revision)
	}
	return nil
}
