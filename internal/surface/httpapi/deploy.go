package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// Deploy writes the next generation, bound to the one that the caller read.
func (a *API) Deploy(ctx context.Context, req *connect.Request[fairleadv1.DeployRequest]) (*connect.Response[fairleadv1.DeployResponse], error) {
	m := req.Msg
	if err := service.CheckServiceName(m.GetService()); err != nil {
		return nil, err
	}
	// From looking at the artifact to naming it, it is not collected.
	a.uses.deploys.RLock()
	defer a.uses.deploys.RUnlock()
	var resp *fairleadv1.DeployResponse
	err := a.retry(func() (err error) {
		resp, err = a.deploy(ctx, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	resp.Url = a.url(service.LocalHost(m.GetService()))
	return connect.NewResponse(resp), nil
}

func (a *API) deploy(ctx context.Context, m *fairleadv1.DeployRequest) (*fairleadv1.DeployResponse, error) {
	c, err := a.expected(ctx, m.GetService(), m.GetExpectedGeneration())
	if err != nil {
		return nil, err
	}
	today, _, _, err := get[service.Catalog](ctx, a.Store, service.KindCatalog, m.GetService())
	if err != nil {
		return nil, err
	}
	c.verb = "deploy"
	if c.next, err = service.Deploy(c.old, m.GetService(), a.edit(ctx, m), today); err != nil {
		return nil, err
	}
	if err := a.setTraffic(ctx, &c.next, m); err != nil {
		return nil, err
	}
	if err := a.stored(ctx, c.next.Template.Artifact); err != nil {
		return nil, err
	}
	met, err := a.met(ctx, c, today)
	if err != nil {
		return nil, err
	}
	if met {
		return &fairleadv1.DeployResponse{Generation: c.old.Generation, Unchanged: true, Message: unchanged(*c.old, today)}, nil
	}
	if err := a.write(ctx, c); err != nil {
		return nil, err
	}
	return &fairleadv1.DeployResponse{Generation: c.next.Generation, Message: strings.Join(append(notice(c.next), a.missing(ctx)...), "\n")}, nil
}

// expected reads the document and holds it against what the caller read.
func (a *API) expected(ctx context.Context, name string, generation int32) (change, error) {
	old, version, found, err := get[service.Desired](ctx, a.Store, service.KindDesired, name)
	if err != nil {
		return change{}, err
	}
	hint := fmt.Sprintf("look at `fairlead get %s` and run it again", name)
	switch {
	case !found && generation != 0:
		return change{}, raceLost(name, store.Document{})
	case !found:
		return change{}, nil
	case generation == 0 && old.Deleted, generation == old.Generation:
		return change{old: &old, version: version}, nil
	}
	return change{}, generationStands(old, hint)
}

func (a *API) edit(ctx context.Context, m *fairleadv1.DeployRequest) service.DeployEdit {
	e := service.DeployEdit{
		Template:  templateOf(m.GetTemplate()),
		Instances: int(m.GetInstances()),
		HostNames: m.GetHostNames(),
		NoTraffic: m.GetNoTraffic(),
		Tag:       m.GetTag(),
		Author:    service.Author{By: by(ctx, m.GetBy()), At: a.Now()},
	}
	if m.GetForce() {
		e.Force = a.NewID()
	}
	return e
}

// setTraffic makes next's traffic what the request asks for, whole. A request
// that does not say leaves it.
func (a *API) setTraffic(ctx context.Context, next *service.Desired, m *fairleadv1.DeployRequest) error {
	if !m.GetSetTraffic() {
		return nil
	}
	if m.GetNoTraffic() || m.GetTag() != "" {
		return fault.New(fault.Invalid, "say all of it in the traffic", "traffic is asked for whole, and a tag or no traffic beside it")
	}
	parts := slices.DeleteFunc(targetsOf(m.GetTraffic()), func(t service.Target) bool { return t.Percent == 0 && t.Tag == "" && !latest(t) })
	next.Traffic = nil
	if len(parts) == 1 && latest(parts[0]) && parts[0].Percent == 100 && parts[0].Tag == "" {
		return nil // which is what no traffic at all says
	}
	revisions, err := a.revisions(ctx, next.Service)
	if err != nil {
		return err
	}
	set, err := service.SetTraffic(*next, parts, nil, revisions)
	if err != nil {
		return err
	}
	next.Traffic = set.Traffic
	return nil
}

func latest(t service.Target) bool { return t.Revision == "" || t.Revision == service.LatestRevision }

// stored refuses a template whose artifact nobody uploaded.
func (a *API) stored(ctx context.Context, digest string) error {
	if digest == "" {
		return nil
	}
	_, err := a.Bucket.Stat(ctx, ArtifactName(digest))
	if errors.Is(err, bucket.ErrNotFound) {
		return fault.New(fault.Invalid, "upload the file first: `fairlead deploy` does", "artifact %s is not stored", digest)
	}
	return err
}

func (a *API) met(ctx context.Context, c change, today service.Catalog) (bool, error) {
	if c.old == nil {
		return false, nil
	}
	all, err := a.revisions(ctx, c.next.Service)
	if err != nil {
		return false, err
	}
	revisions := make(map[string]service.Revision, len(all)) // :: name → revision
	for _, r := range all {
		revisions[r.Name] = r
	}
	return service.Met(c.old, c.next, today, revisions), nil
}

func unchanged(d service.Desired, today service.Catalog) string {
	text := fmt.Sprintf("%s is what is asked for already: nothing was changed (--force makes a new revision)", today.Latest)
	if d.Template.Dir != "" {
		text += fmt.Sprintf("; the content of %s is no part of a revision: when it changed, --force deploys it", d.Template.Dir)
	}
	return text
}

// notice is what the caller should know of what was accepted.
func notice(d service.Desired) []string {
	var notes []string
	if at := d.Pinned(); at != "" {
		notes = append(notes, "traffic stays where it is ("+at+"): the new revision gets 0%")
	}
	if d.Template.Dir != "" {
		notes = append(notes, "the content of "+d.Template.Dir+" is used in place and is no part of the revision: when it changes, --force deploys it")
	}
	return notes
}

// retry runs a read and the write bound to it again when a claim on a host name
// was lost to another service: the next reading names its owner.
func (a *API) retry(once func() error) error {
	var err error
	for range 5 {
		err = once()
		if lost := store.AsConflict(err); lost == nil {
			return err
		}
	}
	return err
}
