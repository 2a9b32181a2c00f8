package resolver

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// ViewsStatus says what is held, how old it is, and what is wrong with it.
type ViewsStatus struct {
	// Connected to Control, which has welcomed this subscriber.
	Connected bool
	Control   string
	// Age is how long ago a control was last heard; before any was, how long
	// ago the newest file was written. Zero when there is neither.
	Age time.Duration
	// Views by service.
	Views []ViewStatus
	// Refusals counts views that were not taken: lower ones, and such as did not fit.
	Refusals uint64
	// Missing are features that the plane relies on and this program lacks.
	Missing []string
	// Shed is how long what takes no traffic from trouble waits at the plane, where
	// that is longer than it should; zero is not.
	Shed time.Duration
	// KeepError says why what is held is not on disk; empty where it is.
	KeepError string
	// Notes are what a person should know, the latest last.
	Notes []string
}

// ViewStatus is one service's view.
type ViewStatus struct {
	Service string
	// Version as the plane told it, and the one on disk; zero is none.
	Version, Keeps view.Version
	// Source is SourceDisk or SourceStream; SourceNone where nothing is held.
	Source string
	// Objection says why what is picked by is not what was told.
	Objection string
	// Refused says why the plane does not give it.
	Refused string
}

// Status says how the holder stands now.
func (h *Views) Status() ViewsStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := ViewsStatus{
		Connected: h.connected != "", Control: h.connected, Missing: slices.Clone(h.missing), Notes: slices.Clone(h.notes),
		Refusals: h.refusals, Shed: h.shed,
	}
	if h.keepErr != nil {
		s.KeepError = h.keepErr.Error()
	}
	s.Age = h.ageLocked()
	for service, x := range h.held {
		s.Views = append(s.Views, x.status(service))
	}
	slices.SortFunc(s.Views, func(a, b ViewStatus) int { return cmp.Compare(a.Service, b.Service) })
	return s
}

// standing is how one service's view stands, and how old what is known is.
func (h *Views) standing(service string) (v ViewStatus, age time.Duration, connected bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.held[service]; x != nil {
		v = x.status(service)
	}
	return v, h.ageLocked(), h.connected != ""
}

func (h *Views) ageLocked() time.Duration {
	if h.heard.IsZero() {
		return 0
	}
	return max(0, h.cfg.Clock().Sub(h.heard))
}

func (x *holding) status(service string) ViewStatus {
	v := ViewStatus{Service: service, Objection: x.held.Objection(), Refused: x.refused}
	if d := x.asleep; d != nil {
		v.Version, v.Keeps, v.Source, v.Objection = d.Told.Version, d.Told.Version, SourceDisk, d.Objection
		return v
	}
	if t := x.held.Told(); t != nil {
		v.Version, v.Source = t.Version, SourceStream
		if x.held == x.fromDisk {
			v.Source = SourceDisk
		}
	}
	if t := x.kept.Told(); t != nil {
		v.Keeps = t.Version
	}
	return v
}

// note is noteLocked.
func (h *Views) note(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteLocked(text)
}

// Changed is closed at the next change of Status, ages apart.
func (h *Views) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// noteLocked is for a person: said in Status and in the log.
func (h *Views) noteLocked(text string) {
	if n := len(h.notes); n > 0 && h.notes[n-1] == text {
		return
	}
	h.cfg.Log.Warn(text, "subscriber", h.cfg.Name)
	h.notes = append(h.notes, text)
	h.notes = h.notes[max(0, len(h.notes)-maxNotes):]
	h.changedLocked()
}
