package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// artifacts holds executable copies by digest. A copy exists whole or not at all.
type artifacts struct {
	dir   string
	fetch func(ctx context.Context, digest string, to io.Writer) error
	once  singleflight.Group
}

// checkDigest accepts "sha256:" and 64 hexadecimal digits, which may become a file's name.
func checkDigest(digest string) error {
	text, ok := strings.CutPrefix(digest, "sha256:")
	b, err := hex.DecodeString(text)
	if !ok || err != nil || len(b) != sha256.Size || strings.ToLower(text) != text {
		return fault.New(fault.Invalid, "", "cannot use artifact %q: it is no sha256 digest", digest)
	}
	return nil
}

// get gives the path of the copy, fetched when it is not here.
func (a *artifacts) get(ctx context.Context, digest string) (string, error) {
	if err := checkDigest(digest); err != nil {
		return "", err
	}
	path := filepath.Join(a.dir, strings.TrimPrefix(digest, "sha256:"))
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil {
		return path, nil
	}
	_, err, _ := a.once.Do(digest, func() (any, error) { return nil, a.bring(ctx, digest, path) })
	return path, err
}

func (a *artifacts) bring(ctx context.Context, digest, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil // another caller has just brought it
	}
	tmp, err := os.CreateTemp(a.dir, unfinished)
	if err != nil {
		return fmt.Errorf("cannot keep artifact %s: %w", digest, err)
	}
	defer os.Remove(tmp.Name()) // fails once it has its name, as it should
	sum := sha256.New()
	ferr := a.fetch(ctx, digest, io.MultiWriter(tmp, sum))
	if err := errors.Join(ferr, tmp.Chmod(0o755), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("cannot fetch artifact %s: %w", digest, err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fault.New(fault.Unavailable, "", "cannot use artifact %s: what came is %s", digest, got)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("cannot keep artifact %s: %w", digest, err)
	}
	return syncDir(a.dir)
}

// collect removes what is not in use and was not used since before.
func (a *artifacts) collect(inUse map[string]bool, before time.Time) error {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return ignoreMissing(err)
	}
	var errs []error
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || e.IsDir() || inUse["sha256:"+e.Name()] || st.ModTime().After(before) {
			continue
		}
		errs = append(errs, ignoreMissing(os.Remove(filepath.Join(a.dir, e.Name()))))
	}
	return errors.Join(errs...)
}

// copyForUser puts an artifact where another user can run it.
func copyForUser(path, base string) (string, error) {
	to := filepath.Join(base, "program")
	if err := copyFrom(path, to, 0); err != nil {
		return "", fmt.Errorf("cannot copy an artifact: %w", err)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		return "", fmt.Errorf("cannot copy an artifact: %w", err)
	}
	return to, nil
}
