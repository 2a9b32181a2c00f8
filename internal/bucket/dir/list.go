package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fairlead-platform/fairlead/internal/bucket"
)

// List implements bucket.Bucket. It reads only folders that can have blobs
// with the prefix.
func (b *Bucket) List(ctx context.Context, prefix string) ([]bucket.Info, error) {
	l := listing{ctx: ctx, prefix: prefix}
	start := blobsFolder
	for _, part := range parents(prefix) {
		start = path.Join(start, folderMark+part)
	}
	root, err := b.current()
	if err != nil {
		return nil, fmt.Errorf("cannot list blobs %q: %w", prefix, err)
	}
	err = fs.WalkDir(root.FS(), start, l.visit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list blobs %q: %w", prefix, err)
	}
	slices.SortFunc(l.found, func(x, y bucket.Info) int { return cmp.Compare(x.Name, y.Name) })
	return l.found, nil
}

// parents returns the parts of the prefix that are surely folders; none where
// the prefix is of no name, so that nothing has it.
func parents(prefix string) []string {
	i := strings.LastIndex(prefix, "/")
	if i < 0 || bucket.CheckName(prefix[:i]) != nil {
		return nil
	}
	return strings.Split(prefix[:i], "/")
}

type listing struct {
	ctx    context.Context
	prefix string
	found  []bucket.Info
}

func (l *listing) visit(place string, d fs.DirEntry, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := cmp.Or(err, l.ctx.Err()); err != nil {
		return err
	}
	if d.IsDir() {
		folder := folderName(place)
		if !strings.HasPrefix(folder, l.prefix) && !strings.HasPrefix(l.prefix, folder) {
			return fs.SkipDir
		}
		return nil
	}
	n, ok := name(place)
	if !ok || !strings.HasPrefix(n, l.prefix) {
		return nil
	}
	st, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	l.found = append(l.found, info(n, st))
	return nil
}
