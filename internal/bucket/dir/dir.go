// Package dir keeps blobs as files of a local folder. A blob is whole or not
// there: it is written to a temporary file, synced, and then given its name,
// which is synced too. No name leads out of the folder. Read [Bucket] first.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fairlead-platform/fairlead/internal/bucket"
)

// A blob a/b lies at blobs/+a/=b: folders and files are marked, so that a and
// a/b can both be blobs. Beside them tmp holds what is being written.
const (
	blobsFolder = "blobs"
	tmpFolder   = "tmp"
	folderMark  = "+"
	fileMark    = "="
)

// Bucket is a folder of blobs. It is used by one process at a time, which
// whoever opens it sees to, or by several that all use [OpenShared]. It
// outlives its folder: one that was removed or replaced is opened again.
type Bucket struct {
	// Log is told of a folder that was opened again; nil discards. It is set
	// before the first call.
	Log *slog.Logger

	folder string
	mu     sync.Mutex // guards root
	root   *os.Root   // nil after Close
}

var _ bucket.Bucket = (*Bucket)(nil)

// Open opens the folder, or makes it (0700), and removes what a process that
// died in mid-write has left.
func Open(folder string) (*Bucket, error) {
	return openAfter(folder, func(fs.FileInfo) bool { return true })
}

// leftoverAge is when what a process has not named in the shared folder is
// taken to be a dead one's.
const leftoverAge = 24 * time.Hour

// OpenShared is Open for a folder that other processes use too: what they are
// writing stays.
func OpenShared(folder string) (*Bucket, error) {
	return openAfter(folder, isOld)
}

func isOld(st fs.FileInfo) bool { return time.Since(st.ModTime()) > leftoverAge }

func openAfter(folder string, leftover func(fs.FileInfo) bool) (*Bucket, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", folder, err)
	}
	root, err := open(folder, leftover)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", folder, err)
	}
	return &Bucket{folder: folder, root: root}, nil
}

func open(folder string, leftover func(fs.FileInfo) bool) (_ *os.Root, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, classified(err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Close())
		}
	}()
	if _, err := makeInner(root); err != nil {
		return nil, err
	}
	if err := clean(root, leftover); err != nil {
		return nil, err
	}
	return root, syncFolder(root, ".")
}

// clean removes what dead processes have left in mid-write.
func clean(root *os.Root, leftover func(fs.FileInfo) bool) error {
	entries, err := fs.ReadDir(root.FS(), tmpFolder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		st, err := e.Info()
		if err == nil && leftover(st) {
			err = root.RemoveAll(tmpFolder + "/" + e.Name())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // its writer was quicker
			return err
		}
	}
	return nil
}

// Close releases the folder. Calls after it fail.
func (b *Bucket) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.root == nil {
		return nil
	}
	root := b.root
	b.root = nil
	return root.Close()
}

// place returns the file of the named blob.
func place(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = folderMark + parts[i]
	}
	last := len(parts) - 1
	parts[last] = fileMark + strings.TrimPrefix(parts[last], folderMark)
	return blobsFolder + "/" + strings.Join(parts, "/")
}

// name is the inverse of place. It reports false for a file that is no blob.
func name(place string) (string, bool) {
	folder, file := path.Split(place)
	file, ok := strings.CutPrefix(file, fileMark)
	return folderName(folder) + file, ok
}

// folderName is what the names of the blobs in the folder begin with.
func folderName(folder string) string {
	var name strings.Builder
	for part := range strings.SplitSeq(strings.Trim(folder, "/"), "/") {
		if part, ok := strings.CutPrefix(part, folderMark); ok {
			name.WriteString(part + "/")
		}
	}
	return name.String()
}

func info(name string, st fs.FileInfo) bucket.Info {
	return bucket.Info{Name: name, Size: st.Size(), Modified: st.ModTime()}
}

// Open implements bucket.Bucket.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, bucket.Info, error) {
	if err := usable(ctx, name); err != nil {
		return nil, bucket.Info{}, err
	}
	root, err := b.current()
	if err != nil {
		return nil, bucket.Info{}, fmt.Errorf("cannot open blob %s: %w", name, err)
	}
	f, err := root.Open(place(name))
	if err != nil {
		return nil, bucket.Info{}, missing(name, err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, bucket.Info{}, errors.Join(err, f.Close())
	}
	return f, info(name, st), nil
}

// Stat implements bucket.Bucket.
func (b *Bucket) Stat(ctx context.Context, name string) (bucket.Info, error) {
	if err := usable(ctx, name); err != nil {
		return bucket.Info{}, err
	}
	root, err := b.current()
	if err != nil {
		return bucket.Info{}, fmt.Errorf("cannot open blob %s: %w", name, err)
	}
	st, err := root.Stat(place(name))
	if err != nil {
		return bucket.Info{}, missing(name, err)
	}
	return info(name, st), nil
}

func usable(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return bucket.CheckName(name)
}

func missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("blob %s: %w", name, bucket.ErrNotFound)
	}
	return fmt.Errorf("cannot open blob %s: %w", name, err)
}

func classified(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", bucket.ErrFull, err)
	}
	return err
}

func syncFolder(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
