package httpapi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// Bounds of one collection of artifacts.
const (
	ArtifactGrace = 10 * time.Minute
	collectAtOnce = 100
)

// CollectArtifacts deletes artifacts that neither a desired document nor a
// revision names, and that were neither stored nor asked for within the grace:
// a hundred at most. It returns how many. A document that cannot be read may
// name any of them, so then none is deleted.
func (a *API) CollectArtifacts(ctx context.Context, grace time.Duration) (int, error) {
	a.uses.deploys.Lock()
	defer a.uses.deploys.Unlock()
	named, err := a.namedArtifacts(ctx)
	if err != nil {
		return 0, err
	}
	blobs, err := a.Bucket.List(ctx, artifactPrefix)
	if err != nil {
		return 0, fmt.Errorf("cannot list artifacts: %w", err)
	}
	after, deleted := a.Now().Add(-grace), 0
	for _, b := range blobs {
		digest := strings.TrimPrefix(b.Name, artifactPrefix)
		if named[digest] || b.Modified.After(after) || a.uses.since(digest, after) {
			continue
		}
		if err := a.Bucket.Delete(ctx, b.Name); err != nil {
			return deleted, fmt.Errorf("cannot delete artifact %s: %w", digest, err)
		}
		if deleted++; deleted == collectAtOnce {
			break
		}
	}
	return deleted, nil
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
