package httpapi

import (
	"context"
	"encoding/json"
	"errors"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// WatchDeployment tells the steps of one generation as the store records them,
// and how it ended. It waits on the store's commits and never polls.
func (a *API) WatchDeployment(ctx context.Context, req *connect.Request[fairleadv1.WatchDeploymentRequest], stream *connect.ServerStream[fairleadv1.WatchDeploymentResponse]) error {
	m := req.Msg
	if m.GetGeneration() < 1 {
		return fault.New(fault.Invalid, "give the generation that the change returned", "generation %d cannot be watched", m.GetGeneration())
	}
	d, _, err := a.desired(ctx, m.GetService())
	if err == nil && d.Generation < m.GetGeneration() {
		err = fault.New(fault.NotFound, "", "generation %d of %s was never written: %d stands", m.GetGeneration(), d.Service, d.Generation)
	}
	if err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	if d.Service == "" { // gone already, which is how a deletion ends
		return stream.Send(&fairleadv1.WatchDeploymentResponse{Ended: &fairleadv1.DeploymentEnd{Outcome: "deleted", Reason: m.GetService() + " is gone"}})
	}
	if err != nil {
		return err
	}
	// Headers leave with the first message: the caller learns that it follows.
	if err := stream.Send(&fairleadv1.WatchDeploymentResponse{}); err != nil {
		return err
	}
	f := &follower{api: a, service: m.GetService(), generation: m.GetGeneration(), kind: m.GetKind(), told: map[string]saga.Step{}}
	return f.run(ctx, stream.Send)
}

// follower holds what is known of one generation.
type follower struct {
	api        *API
	service    string
	generation int32
	// kind of change that is waited for; empty means all. See earlier.
	kind string

	desired held[service.Desired]
	catalog held[service.Catalog]
	sagas   map[string]held[saga.Record] // :: saga identity → record
	// told :: saga, attempt and step → what was last told of it
	told map[string]saga.Step
}

// held is a document at the version it was read; the zero value is none.
type held[T any] struct {
	value   T
	version uint64
	exists  bool
}

// run lists and then follows; a watcher that fell behind lists again.
func (f *follower) run(ctx context.Context, send func(*fairleadv1.WatchDeploymentResponse) error) error {
	for {
		from, err := f.snapshot(ctx)
		if err != nil {
			return err
		}
		if ended, err := f.tell(send); ended || err != nil {
			return err
		}
		ended, err := f.follow(ctx, from, send)
		if ended || !errors.Is(err, store.ErrTooOld) {
			return err
		}
	}
}

func (f *follower) follow(ctx context.Context, from uint64, send func(*fairleadv1.WatchDeploymentResponse) error) (bool, error) {
	w, err := f.api.Store.Watch(ctx, from)
	if err != nil {
		return false, err
	}
	defer w.Close()
	for {
		c, err := w.Next(ctx)
		if err != nil {
			return false, err
		}
		if !f.take(c) {
			continue
		}
		if ended, err := f.tell(send); ended || err != nil {
			return ended, err
		}
	}
}

// snapshot reads all that counts, as of one sequence, and returns it: nothing
// that changed since is missed. A catalog that is newer than the sagas would say
// that something is done before its last steps were told.
func (f *follower) snapshot(ctx context.Context) (uint64, error) {
	for {
		sequence, err := f.read(ctx)
		if err != nil || f.desired.version <= sequence && f.catalog.version <= sequence {
			return sequence, err
		}
	}
}

// read returns the sequence at which the sagas are true; the other documents
// are as of then or later.
func (f *follower) read(ctx context.Context) (uint64, error) {
	docs, seq, err := f.api.Store.List(ctx, service.KindSaga)
	if err != nil {
		return 0, err
	}
	f.sagas = map[string]held[saga.Record]{}
	for _, d := range docs {
		f.takeSaga(d)
	}
	if f.desired.value, f.desired.version, f.desired.exists, err = get[service.Desired](ctx, f.api.Store, service.KindDesired, f.service); err != nil {
		return 0, err
	}
	f.catalog.value, f.catalog.version, f.catalog.exists, err = get[service.Catalog](ctx, f.api.Store, service.KindCatalog, f.service)
	return seq, err
}

// take applies a commit and says whether it was of interest.
func (f *follower) take(c store.Commit) bool {
	taken := false
	for _, ch := range c.Changes {
		switch {
		case ch.Kind == service.KindDesired && ch.Name == f.service:
			taken = renew(&f.desired, ch, c.Sequence) || taken
		case ch.Kind == service.KindCatalog && ch.Name == f.service:
			taken = renew(&f.catalog, ch, c.Sequence) || taken
		case ch.Kind == service.KindSaga && ch.Deleted:
			// How it ended was told when it was written; its erasure tells
			// nothing but of a deletion, which ends by it.
			if f.sagas[ch.Name].value.Kind == service.WorkDelete {
				delete(f.sagas, ch.Name)
				taken = true
			}
		case ch.Kind == service.KindSaga:
			taken = f.takeSaga(ch.Document) || taken
		}
	}
	return taken
}

// renew takes a newer state of a document. One that cannot be read is left as
// it was: the control role makes it visible.
func renew[T any](h *held[T], ch store.Change, sequence uint64) bool {
	if sequence <= h.version {
		return false
	}
	if ch.Deleted {
		*h = held[T]{version: sequence}
		return true
	}
	var v T
	if err := json.Unmarshal(ch.Body, &v); err != nil {
		return false
	}
	*h = held[T]{value: v, version: sequence, exists: true}
	return true
}

func (f *follower) takeSaga(d store.Document) bool {
	var r saga.Record
	if err := json.Unmarshal(d.Body, &r); err != nil {
		return false
	}
	known := f.sagas[d.Name]
	if r.Owner != f.service || r.Kind == kindCollect || known.version >= d.Version {
		return false
	}
	if of := r.Generation == f.generation || f.earlier(r, known.exists); !of {
		return false
	}
	f.sagas[d.Name] = held[saga.Record]{value: r, version: d.Version, exists: true}
	return true
}

// Kinds of change that act on what an earlier generation began.
const (
	kindPause  = "pause"
	kindResume = "resume"
	kindAbort  = "abort"
)

// onEarlier says that the change acts on what is in progress already.
func (f *follower) onEarlier() bool {
	return f.kind == kindPause || f.kind == kindResume || f.kind == kindAbort
}

// earlier says that an earlier generation's saga is what the change acts on: one
// that is open, or was when it was first seen.
func (f *follower) earlier(r saga.Record, known bool) bool {
	if !f.onEarlier() || r.Generation > f.generation || !known && !r.Open() {
		return false
	}
	switch r.Kind {
	case service.WorkDeploy, service.WorkTraffic:
		return true
	case service.WorkScale, service.WorkRestart:
		return f.kind == kindAbort
	}
	return false
}

// current is the newest saga of the generation, of the kind that is waited for
// if there is one. Another one is given where nothing serves: then the kind
// cannot be had before that one succeeds.
func (f *follower) current() (saga.Record, bool) {
	var newest, wanted held[saga.Record]
	for _, h := range f.sagas {
		if !newest.exists || h.value.Started.After(newest.value.Started) {
			newest = h
		}
		if h.value.Kind == f.kind && (!wanted.exists || h.value.Started.After(wanted.value.Started)) {
			wanted = h
		}
	}
	if f.kind == "" || f.onEarlier() || !wanted.exists && len(f.catalog.value.Traffic) == 0 {
		return newest.value, newest.exists
	}
	return wanted.value, wanted.exists
}

// tell sends what is new, and says whether that was the end.
func (f *follower) tell(send func(*fairleadv1.WatchDeploymentResponse) error) (bool, error) {
	r, known := f.current()
	msg := &fairleadv1.WatchDeploymentResponse{Ended: f.end(r, known)}
	if known {
		msg.Steps = f.steps(r)
	}
	if len(msg.Steps) == 0 && msg.Ended == nil {
		return false, nil
	}
	return msg.Ended != nil, send(msg)
}
