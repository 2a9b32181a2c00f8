package service

import (
	"cmp"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/saga"
)

// Excess is the history beyond its bounds, oldest first.
type Excess struct {
	Revisions []Doc[Revision]
	Sagas     []Doc[saga.Record]
	Events    []Doc[string]
}

func (s *Snapshot) planTrim(*World) Work {
	if len(s.Revisions) <= KeptRevisions && len(s.Sagas) <= KeptSagas+1 && len(s.Events) <= KeptEvents {
		return Work{} // as ever, and cheaply
	}
	e := s.Excess()
	if len(e.Revisions) <= slackOfHistory && len(e.Sagas) <= slackOfHistory && len(e.Events) <= slackOfEvents {
		return Work{}
	}
	return Work{Kind: WorkTrim, Reason: "there is more history than is kept"}
}

// Excess finds retired revisions, ended sagas and events beyond what is kept.
func (s *Snapshot) Excess() Excess {
	var e Excess
	for _, r := range s.Revisions {
		if r.Value.State == RevisionRetired && len(r.Value.Slots)+len(r.Value.Leaving) == 0 && !s.Desired.Value.Names(r.Value.Name) {
			e.Revisions = append(e.Revisions, r)
		}
	}
	newest := s.newestDeploy()
	for _, r := range s.Sagas {
		if !r.Value.Open() && r.Value.ID != newest {
			e.Sagas = append(e.Sagas, r)
		}
	}
	slices.SortStableFunc(e.Sagas, func(a, b Doc[saga.Record]) int {
		return cmp.Or(a.Value.Ended.Compare(b.Value.Ended), cmp.Compare(a.Value.ID, b.Value.ID))
	})
	e.Revisions = beyond(e.Revisions, KeptRevisions)
	e.Sagas = beyond(e.Sagas, KeptSagas)
	e.Events = beyond(s.Events, KeptEvents)
	return e
}

// newestDeploy is the one that status shows: never trimmed.
func (s *Snapshot) newestDeploy() string {
	id, started := "", int64(0)
	for _, r := range s.Sagas {
		if at := r.Value.Started.UnixNano(); r.Value.Kind == WorkDeploy && (id == "" || at >= started) {
			id, started = r.Value.ID, at
		}
	}
	return id
}

func beyond[T any](list []T, keep int) []T {
	return list[:max(0, len(list)-keep)]
}
