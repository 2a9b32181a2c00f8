package dir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/fairlead-platform/fairlead/internal/bucket"
)

// Put implements bucket.Bucket.
func (b *Bucket) Put(ctx context.Context, name string, r io.Reader, ifAbsent bool) (bucket.Info, error) {
	if err := usable(ctx, name); err != nil {
		return bucket.Info{}, err
	}
	root, err := b.writable()
	if err != nil {
		return bucket.Info{}, fmt.Errorf("cannot put blob %s: %w", name, err)
	}
	_, retained := bucket.RetainedUntil(name)
	i, err := writer{root}.put(ctx, name, r, ifAbsent || retained)
	if !b.isAt(root) && !errors.Is(err, bucket.ErrExists) {
		err = errMoved
	}
	if err != nil {
		return bucket.Info{}, fmt.Errorf("cannot put blob %s: %w", name, classified(err))
	}
	return i, nil
}

// writer writes within one folder.
type writer struct{ root *os.Root }

func (w writer) put(ctx context.Context, name string, r io.Reader, ifAbsent bool) (_ bucket.Info, err error) {
	if ifAbsent { // spares the copying; what decides is the link below
		if _, err := w.root.Stat(place(name)); err == nil {
			return bucket.Info{}, bucket.ErrExists
		}
	}
	tmp := path.Join(tmpFolder, rand.Text())
	f, err := w.root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return bucket.Info{}, err
	}
	defer func() {
		if e := w.root.Remove(tmp); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	st, err := fill(ctx, f, r)
	if err != nil {
		return bucket.Info{}, err
	}
	if err := w.name(tmp, place(name), ifAbsent); err != nil {
		return bucket.Info{}, err
	}
	return info(name, st), nil
}

// fill writes, syncs and closes f.
func fill(ctx context.Context, f *os.File, r io.Reader) (fs.FileInfo, error) {
	_, err := io.Copy(f, reader{ctx, r})
	if err == nil {
		err = f.Sync()
	}
	st, e := f.Stat()
	if err := errors.Join(err, e, f.Close()); err != nil {
		return nil, err
	}
	return st, nil
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// name gives the temporary file its place, and syncs that.
func (w writer) name(tmp, place string, ifAbsent bool) error {
	if err := w.makeFolders(path.Dir(place)); err != nil {
		return err
	}
	var err error
	if ifAbsent { // a link, unlike a renaming, fails where the name is taken
		err = w.root.Link(tmp, place)
	} else {
		err = w.root.Rename(tmp, place)
	}
	if errors.Is(err, fs.ErrExist) {
		return bucket.ErrExists
	}
	if err != nil {
		return err
	}
	return syncFolder(w.root, path.Dir(place))
}

// makeFolders makes the folder and those above it, and syncs their names,
// also those that another Put made and may not have synced yet.
func (w writer) makeFolders(folder string) error {
	if folder == blobsFolder {
		return nil
	}
	if err := w.makeFolders(path.Dir(folder)); err != nil {
		return err
	}
	if err := w.root.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(w.root, path.Dir(folder))
}

// Delete implements bucket.Bucket. Folders stay, though they are empty: a Put
// may be on its way into them.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := usable(ctx, name); err != nil {
		return err
	}
	if until, retained := bucket.RetainedUntil(name); retained && time.Now().Before(until) {
		return fmt.Errorf("cannot delete blob %s: %w", name, bucket.ErrRetained)
	}
	root, err := b.current()
	if err != nil {
		return fmt.Errorf("cannot delete blob %s: %w", name, err)
	}
	err = root.Remove(place(name))
	if err == nil {
		err = syncFolder(root, path.Dir(place(name)))
	}
	if err != nil && !errors.Is(missing(name, err), bucket.ErrNotFound) {
		return fmt.Errorf("cannot delete blob %s: %w", name, err)
	}
	return nil
}
