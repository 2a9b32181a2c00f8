package resolver

import (
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Where the table in force came from.
const (
	SourceNone   = ""
	SourceDisk   = "disk"
	SourceStream = "stream"
)

// HolderStatus says what is held, how old it is, and what is wrong with it.
type HolderStatus struct {
	// Version and Digest of the table as the plane told it; zero when none is held.
	Version view.Version
	Digest  string
	// Keeps is the version on disk, and KeepError why it is not the same.
	Keeps     view.Version
	KeepError string
	// Epoch is the highest of the incarnation that was heard last.
	Epoch view.Epoch
	// Source of the table in force.
	Source string
	// Connected to Control, which has welcomed this follower.
	Connected bool
	Control   string
	// Age is how long ago a control was last heard; before any was, how long
	// ago the file was written. Zero when there is neither.
	Age time.Duration
	// Objections say by service where what is served is not what was told.
	Objections map[string]string
	// Orphaned services are served though the table in force names them no more.
	Orphaned []string
	// Notes are what a person should know, the latest last.
	Notes []string
}

// maxNotes bounds HolderStatus.Notes.
const maxNotes = 16

// Status says how the holder stands now.
func (h *Holder) Status() HolderStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := HolderStatus{
		Connected: h.connected != "", Control: h.connected,
		Epoch: h.held.Epoch(), Objections: h.held.Objections(), Orphaned: h.held.Orphaned(),
		Notes: append([]string(nil), h.notes...),
	}
	if t := h.held.Told(); t != nil {
		s.Version, s.Digest, s.Source = t.Version, t.Digest.String(), SourceStream
		if t == h.fromDisk {
			s.Source = SourceDisk
		}
	}
	if t := h.kept.Told(); t != nil {
		s.Keeps = t.Version
	}
	if h.keepErr != nil {
		s.KeepError = h.keepErr.Error()
	}
	if !h.heard.IsZero() {
		s.Age = max(0, time.Since(h.heard))
	}
	return s
}

// noteLocked is for a person: said in Status and in the log.
func (h *Holder) noteLocked(text string) {
	if n := len(h.notes); n > 0 && h.notes[n-1] == text {
		return
	}
	h.cfg.Log.Warn(text, "follower", h.cfg.Name)
	h.notes = append(h.notes, text)
	h.notes = h.notes[max(0, len(h.notes)-maxNotes):]
	h.changedLocked()
}
