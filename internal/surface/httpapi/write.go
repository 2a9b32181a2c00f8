package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// change is one new generation of a service, bound to the version it was made from.
type change struct {
	old     *service.Desired // nil where there is none
	version uint64           // of old; zero where there is none
	next    service.Desired
	verb    string // deploy, scale, traffic, delete and so on: for the record
	checks  []store.Check
}

// write puts the change on record with the claims on its host names and a line
// of history: all of it, or nothing.
func (a *API) write(ctx context.Context, c change) error {
	if err := a.unwatched(ctx, &c); err != nil {
		return err
	}
	w := store.Apply{ID: a.NewID(), Essential: c.next.Deleted, Checks: c.checks}
	body, err := json.Marshal(c.next)
	if err != nil {
		return fmt.Errorf("cannot encode the desired document: %w", err)
	}
	key := store.Key{Kind: service.KindDesired, Name: c.next.Service}
	w.Writes = append(w.Writes, store.Write{Key: key, Expect: c.version, Body: body})
	if !c.next.Deleted {
		if err := a.claims(ctx, c, &w); err != nil {
			return err
		}
	}
	if err := a.line(c, &w); err != nil {
		return err
	}
	err = a.apply(ctx, w)
	if lost := store.AsConflict(err); lost != nil && lost.Key == key {
		return raceLost(c.next.Service, lost.Stands)
	}
	return err
}

// raceLost tells the loser of a race what stands.
func raceLost(name string, stands store.Document) error {
	hint := fmt.Sprintf("look at `fairlead get %s` and run it again", name)
	var d service.Desired
	if stands.Version == 0 {
		return fault.New(fault.Conflict, hint, "service %s was deleted meanwhile; nothing was changed", name)
	}
	if err := json.Unmarshal(stands.Body, &d); err != nil {
		return fault.New(fault.Conflict, hint, "service %s was changed meanwhile; nothing was changed here", name)
	}
	return generationStands(d, hint)
}

func generationStands(d service.Desired, hint string) error {
	author := d.By
	if author == "" {
		author = "somebody"
	}
	return fault.New(fault.Conflict, hint, "generation %d of %s stands, written by %s: nothing was changed", d.Generation, d.Service, author)
}

// claims adds what makes next's host names its own. A name that is given up
// keeps its claim until no route leads there; the control role erases it then.
func (a *API) claims(ctx context.Context, c change, w *store.Apply) error {
	for _, host := range c.next.HostNames {
		had := c.old != nil && !c.old.Deleted && slices.Contains(c.old.HostNames, host)
		if err := a.claim(ctx, claim{service: c.next.Service, host: host, had: had}, w); err != nil {
			return err
		}
	}
	return nil
}

// claim of a service on a host name; had says that the generation before has it.
type claim struct {
	service, host string
	had           bool
}

// claim takes a host name that is free, or whose owner is gone.
func (a *API) claim(ctx context.Context, c claim, w *store.Apply) error {
	key := store.Key{Kind: service.KindHostName, Name: c.host}
	stands, version, found, err := get[service.HostClaim](ctx, a.Store, service.KindHostName, c.host)
	if err != nil {
		return err
	}
	if found && stands.Service == c.service && c.had {
		w.Checks = append(w.Checks, store.Check{Key: key, Version: version})
		return nil
	}
	if found && stands.Service != c.service {
		if err := a.ownerGone(ctx, stands.Service, c.host, w); err != nil {
			return err
		}
	}
	body, err := json.Marshal(service.HostClaim{Service: c.service})
	if err != nil {
		return fmt.Errorf("cannot encode the claim on a host name: %w", err)
	}
	w.Writes = append(w.Writes, store.Write{Key: key, Expect: version, Body: body})
	return nil
}

// ownerGone refuses a host name that leads to another service that there is.
func (a *API) ownerGone(ctx context.Context, owner, host string, w *store.Apply) error {
	d, _, alive, err := get[service.Desired](ctx, a.Store, service.KindDesired, owner)
	switch {
	case err != nil:
		return err
	case !alive:
		w.Checks = append(w.Checks, store.Check{Key: store.Key{Kind: service.KindDesired, Name: owner}})
		return nil
	case d.Deleted || !slices.Contains(d.HostNames, host):
		return fault.New(fault.Unavailable, "run it again in a moment", "host name %s is being taken from service %s, and still leads there", host, owner)
	}
	return fault.New(fault.Invalid, "choose another, or deploy "+owner+" without it first", "host name %s leads to service %s already", host, owner)
}

// line adds a line of history. It names no value of the environment.
func (a *API) line(c change, w *store.Apply) error {
	author := c.next.By
	if author == "" {
		author = "somebody"
	}
	e := service.Event{
		Service: c.next.Service, At: c.next.At, Generation: c.next.Generation,
		Kind: "desired", Text: fmt.Sprintf("%s asked for by %s", c.verb, author),
	}
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("cannot encode a line of history: %w", err)
	}
	w.Writes = append(w.Writes, store.Write{Key: store.Key{Kind: service.KindEvent, Name: c.next.Service + "." + a.NewID()}, Body: body})
	return nil
}
