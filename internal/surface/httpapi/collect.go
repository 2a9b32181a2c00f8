package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Bounds of one collection of artifacts.
const (
	ArtifactGrace = 10 * time.Minute
	// namingGrace is the time between an upload and the document that names it,
	// in which an artifact is kept whatever room it takes.
	namingGrace   = time.Minute
	collectAtOnce = 100
)

// Collection says what a collection of artifacts did.
type Collection struct {
	Deleted int   // artifacts
	Freed   int64 // bytes
	Early   int   // of Deleted, before their grace had passed: there was too much
	Stored  int64 // bytes that are left
}

// CollectArtifacts deletes artifacts that neither a desired document nor a
// revision names, and that were neither stored nor asked for within the grace;
// and, oldest first, also younger ones while all together take more than
// MaxArtifacts. It deletes a hundred at most. A document that cannot be read may
// name any of them, so then none is deleted.
func (a *API) CollectArtifacts(ctx context.Context, grace time.Duration) (Collection, error) {
	a.uses.deploys.Lock()
	defer a.uses.deploys.Unlock()
	var c Collection
	named, err := a.namedArtifacts(ctx)
	if err != nil {
		return c, err
	}
	blobs, err := a.Bucket.List(ctx, artifactPrefix)
	if err != nil {
		return c, fmt.Errorf("cannot list artifacts: %w", err)
	}
	slices.SortStableFunc(blobs, func(x, y bucket.Info) int { return x.Modified.Compare(y.Modified) })
	for _, b := range blobs {
		c.Stored += b.Size
	}
	for _, b := range blobs {
		digest := strings.TrimPrefix(b.Name, artifactPrefix)
		full := a.MaxArtifacts > 0 && c.Stored > a.MaxArtifacts
		aged := a.unusedFor(b, digest, grace)
		if c.Deleted == collectAtOnce || named[digest] || !aged && !(full && a.unusedFor(b, digest, namingGrace)) {
			continue
		}
		if err := a.Bucket.Delete(ctx, b.Name); err != nil {
			return c, fmt.Errorf("cannot delete artifact %s: %w", digest, err)
		}
		c.Deleted, c.Freed, c.Stored = c.Deleted+1, c.Freed+b.Size, c.Stored-b.Size
		if !aged {
			c.Early++
		}
	}
	return c, nil
}

// unusedFor says that the artifact was neither stored nor asked for within d.
func (a *API) unusedFor(b bucket.Info, digest string, d time.Duration) bool {
	after := a.Now().Add(-d)
	return !b.Modified.After(after) && !a.uses.since(digest, after)
}

// namedArtifacts :: digest → some document names it.
func (a *API) namedArtifacts(ctx context.Context) (map[string]bool, error) {
	named := map[string]bool{}
	desired, err := listWhole[service.Desired](ctx, a.Store, service.KindDesired)
	if err != nil {
		return nil, err
	}
	for _, d := range desired {
		named[d.Template.Artifact] = true
	}
	revisions, err := listWhole[service.Revision](ctx, a.Store, service.KindRevision)
	if err != nil {
		return nil, err
	}
	for _, r := range revisions {
		named[r.Template.Artifact] = true
	}
	return named, nil
}
