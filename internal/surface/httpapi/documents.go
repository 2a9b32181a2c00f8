package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// Coded gives the errors of ports and rules a code of the closed set. What has
// one keeps it.
func Coded(err error) error {
	var own *fault.Error
	var input *service.InputError
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case errors.As(err, &input):
		return fault.Wrap(fault.Invalid, input.Hint, err)
	case errors.Is(err, store.ErrNotFound), errors.Is(err, bucket.ErrNotFound):
		return fault.Wrap(fault.NotFound, "", err)
	case errors.Is(err, store.ErrFull), errors.Is(err, bucket.ErrFull):
		return fault.Wrap(fault.Exhausted, "make room on the disk of the data folder; what is served goes on meanwhile, and a service can still be deleted", err)
	case errors.Is(err, store.ErrGone): // before ErrUnknown, which it may come with: it will never be known
		return fault.Wrap(fault.Unavailable, "the data folder was removed under control; put it back or start control anew; what is served goes on", err)
	case errors.Is(err, store.ErrReadOnly), errors.Is(err, store.ErrClosed):
		return fault.Wrap(fault.Unavailable, "", err)
	case errors.Is(err, store.ErrUnknown):
		return fault.Wrap(fault.Unknown, "look at `fairlead get`, and run it again if it was not done", err)
	case store.AsConflict(err) != nil:
		return fault.Wrap(fault.Conflict, "run it again", err)
	}
	return err
}

// get reads one document; found is false where there is none.
func get[T any](ctx context.Context, st store.Store, kind, name string) (value T, version uint64, found bool, err error) {
	d, err := st.Get(ctx, store.Key{Kind: kind, Name: name})
	if errors.Is(err, store.ErrNotFound) {
		return value, 0, false, nil
	}
	if err != nil {
		return value, 0, false, err
	}
	if err := json.Unmarshal(d.Body, &value); err != nil {
		return value, 0, false, fault.New(fault.NeedsOperator, "look at the document in the store; nothing else is held up by it", "cannot read %s: %w", d.Key, err)
	}
	return value, d.Version, true, nil
}

// list reads the documents of a kind whose names keep wants; nil keeps all.
// One that cannot be read is left out: it stops nothing else.
func list[T any](ctx context.Context, st store.Store, kind string, keep func(name string) bool) ([]T, uint64, error) {
	docs, seq, err := st.List(ctx, kind)
	if err != nil {
		return nil, 0, err
	}
	var out []T
	for _, d := range docs {
		if keep != nil && !keep(d.Name) {
			continue
		}
		var v T
		if err := json.Unmarshal(d.Body, &v); err == nil {
			out = append(out, v)
		}
	}
	return out, seq, nil
}

// listWhole reads all documents of a kind, or fails at one that it cannot read.
func listWhole[T any](ctx context.Context, st store.Store, kind string) ([]T, error) {
	docs, _, err := st.List(ctx, kind)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(docs))
	for i, d := range docs {
		if err := json.Unmarshal(d.Body, &out[i]); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", d.Key, err)
		}
	}
	return out, nil
}

// revisions of a service, ordered by name.
func (a *API) revisions(ctx context.Context, name string) ([]service.Revision, error) {
	all, _, err := list[service.Revision](ctx, a.Store, service.KindRevision, func(n string) bool { return strings.HasPrefix(n, name+"-") })
	return slices.DeleteFunc(all, func(r service.Revision) bool { return r.Service != name }), err
}

// desired reads a service's document, tombstone or not, or says that there is none.
func (a *API) desired(ctx context.Context, name string) (service.Desired, uint64, error) {
	d, version, found, err := get[service.Desired](ctx, a.Store, service.KindDesired, name)
	if err != nil {
		return service.Desired{}, 0, err
	}
	if !found {
		return service.Desired{}, 0, a.noService(ctx, name)
	}
	return d, version, nil
}

// noService names the services there are, the most similar first, or the
// gateway that serves one which this store does not have.
func (a *API) noService(ctx context.Context, name string) error {
	if gateway := a.orphanOf(name); gateway != "" {
		return fault.New(fault.NotFound, fmt.Sprintf("deploy it to take it up, or end it: fairlead delete %s; `fairlead explain %s` says more", name, name),
			"service %q is not in this store, and gateway %s serves it by a route from before", name, gateway)
	}
	all, _ := a.standings(name)
	if slices.ContainsFunc(all, func(s discovery.Standing) bool { return s.Slot == "" }) { // no host runs it
		return fault.New(fault.NotFound, fmt.Sprintf("`fairlead instances %s` and `fairlead resolve %s` show it, `fairlead explain %s/INSTANCE` says more", name, name, name),
			"service %q is not deployed here: its instances are registered by lease, or declared as a third party's", name)
	}
	docs, _, err := a.Store.List(ctx, service.KindDesired)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(docs))
	for _, d := range docs {
		names = append(names, d.Name)
	}
	hint := "`fairlead deploy` makes one"
	if near := nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	} else if len(names) > 0 {
		hint = "`fairlead get` lists the services"
	}
	return fault.New(fault.NotFound, hint, "there is no service %q", name)
}

// nearest is the name that differs from the one given by least, and by no more
// than a typing error or two; empty when none does.
func nearest(name string, names []string) string {
	best, least := "", 1+max(1, min(3, len(name)/3))
	for _, n := range names {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance counts the letters to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// apply repeats an Apply whose answer is unknown: the store settles it by its ID.
func (a *API) apply(ctx context.Context, w store.Apply) error {
	var err error
	for range 3 {
		if _, err = a.Store.Apply(ctx, w); !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrGone) || ctx.Err() != nil {
			return err
		}
	}
	return err
}
