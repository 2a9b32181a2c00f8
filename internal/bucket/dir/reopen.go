package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// errMoved: what was done was done in a folder that nobody will look into.
var errMoved = errors.New("the bucket's folder was removed or replaced meanwhile: put it again")

// current returns the folder to work in. Where it was removed or replaced
// since it was opened, it is opened again, and made where it is missing.
func (b *Bucket) current() (*os.Root, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.root == nil {
		return nil, fmt.Errorf("the bucket is closed: %w", fs.ErrClosed)
	}
	if b.isAt(b.root) {
		return b.root, nil
	}
	root, err := open(b.folder, isOld)
	if err != nil {
		return nil, fmt.Errorf("the bucket's folder %s was removed or replaced, and cannot be opened again: %w", b.folder, err)
	}
	b.warn("the bucket's folder was removed or replaced: it was opened again, without the blobs that it had")
	_ = b.root.Close() // it was only read through: its error tells nothing
	b.root = root
	return root, nil
}

// isAt says that root is what lies at the bucket's path, or that this cannot
// be seen at the moment, e.g. for the rights of a folder above.
func (b *Bucket) isAt(root *os.Root) bool {
	got, err := os.Stat(b.folder)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	want, err := root.Stat(".")
	return err == nil && os.SameFile(got, want)
}

// writable is current for one who writes: the folders within are there.
func (b *Bucket) writable() (*os.Root, error) {
	root, err := b.current()
	if err != nil {
		return nil, err
	}
	made, err := makeInner(root)
	if err != nil {
		return nil, fmt.Errorf("cannot make the folders within %s: %w", b.folder, err)
	}
	if made {
		b.warn("a folder within the bucket's was removed: it was made again")
	}
	return root, nil
}

func (b *Bucket) warn(what string) {
	if b.Log != nil {
		b.Log.Warn(what, "folder", b.folder)
	}
}

// makeInner makes the folders within root that are missing, and says whether
// there were any.
func makeInner(root *os.Root) (made bool, err error) {
	for _, f := range []string{tmpFolder, blobsFolder} {
		err := root.Mkdir(f, 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return made, classified(err)
		}
		made = made || err == nil
	}
	if !made {
		return false, nil
	}
	return true, syncFolder(root, ".")
}

// Health returns nil where the bucket can be written: a folder that was
// removed or replaced is opened again first, as by any other call. Otherwise
// its error says what happened and what to do. It is cheap, and safe for
// concurrent use.
func (b *Bucket) Health() error {
	if _, err := b.writable(); err != nil {
		return fmt.Errorf("artifacts cannot be stored: %w; make %s a folder that this user can write: no restart is needed", err, b.folder)
	}
	return nil
}
