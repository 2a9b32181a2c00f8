package control

import (
	"context"
	"fmt"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// collect stops a revision that nothing refers to any more, and retires it. Of
// a revision that is to run it stops only what has left it.
func (j *job) collect() saga.Definition {
	return saga.Definition{
		Kind: service.WorkCollect, Version: 1,
		Steps: []saga.StepDefinition{
			{Name: "stop", Do: j.stopCollected, NoUndo: "what nothing may route to is not started again"},
			{Name: "retire", Do: j.retire, NoUndo: "it is one commit"},
		},
	}
}

func (j *job) stopCollected(ctx context.Context, r *saga.Run) error {
	s := j.snapshot()
	name := r.Record.Subject
	rev := s.Revision(name)
	if !rev.Exists() {
		r.Text("it is gone")
		return nil
	}
	if !s.Catalog.Value.KeepsRunning(name) {
		if why, reached := s.MayRoute(j.world()).Revision(name); reached {
			return fmt.Errorf("%s is not stopped: %s", name, why)
		}
		if err := j.stopUnrouted(ctx, r, name, "nothing refers to it"); err != nil {
			return err
		}
		left := len(j.snapshot().Revision(name).Value.Leaving)
		text := plural(len(rev.Value.Slots)+len(rev.Value.Leaving)-left, "instance") + " stopped"
		if left > 0 {
			text += fmt.Sprintf(", %d more when their host is back", left)
		}
		r.Text("%s", text)
		return nil
	}
	left, err := j.stopWithdrawn(ctx, r, rev.Value, "it left the revision")
	if err != nil {
		return err
	}
	rev.Value = left
	r.Stage(putRevision(rev))
	r.Text("what had left it is stopped")
	return nil
}

func (j *job) retire(_ context.Context, r *saga.Run) error {
	s := j.snapshot()
	rev := s.Revision(r.Record.Subject)
	if !rev.Exists() || s.Catalog.Value.KeepsRunning(r.Record.Subject) {
		r.Text("nothing to retire")
		return nil
	}
	if rev.Value.State == service.RevisionRetired {
		return nil
	}
	if rev.Value.Reason == "" {
		rev.Value.Reason = "nothing referred to it"
	}
	rev.Value.State = service.RevisionRetired
	r.Stage(putRevision(rev), checkDoc(service.KindCatalog, j.service, s.Catalog))
	r.Text("%s is retired", rev.Value.Name)
	return nil
}
