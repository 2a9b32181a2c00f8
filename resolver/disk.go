package resolver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// The file is one header line, "fairlead-table FORMAT sha256:HEX LENGTH", and
// then a view.Snapshot as JSON, of which the header gives checksum and length.
const (
	magic  = "fairlead-table"
	format = 1
)

var errNewer = errors.New("the file was written by a newer program")

// encode makes the content of a file.
func encode(s view.Snapshot) ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the table: %w", err)
	}
	return frame(body), nil
}

func frame(body []byte) []byte {
	sum := sha256.Sum256(body)
	head := fmt.Appendf(nil, "%s %d sha256:%s %d\n", magic, format, hex.EncodeToString(sum[:]), len(body))
	return append(head, body...)
}

// decode reads what encode made. The error wraps errNewer for a format of a
// newer program, and is of another kind for anything else that is no table.
func decode(b []byte) (view.Snapshot, error) {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return view.Snapshot{}, errors.New("cannot read the table: it has no header")
	}
	var name, sum string
	var version, length int
	// A newer format may have another header after its number.
	n, _ := fmt.Sscanf(string(head), "%s %d sha256:%s %d", &name, &version, &sum, &length)
	if name != magic || n < 2 {
		return view.Snapshot{}, errors.New("cannot read the table: its header is not ours")
	}
	if version > format {
		return view.Snapshot{}, fmt.Errorf("cannot read the table of format %d: %w", version, errNewer)
	}
	if version != format || len(body) != length {
		return view.Snapshot{}, fmt.Errorf("cannot read the table: format %d with %d of %d bytes", version, len(body), length)
	}
	if got := sha256.Sum256(body); hex.EncodeToString(got[:]) != sum {
		return view.Snapshot{}, errors.New("cannot read the table: its checksum does not agree")
	}
	var s view.Snapshot
	if err := json.Unmarshal(body, &s); err != nil {
		return view.Snapshot{}, fmt.Errorf("cannot read the table: %w", err)
	}
	return s, nil
}

type loaded struct {
	snapshot view.Snapshot
	found    bool
	written  time.Time
	notes    []string
}

// load reads the file; what cannot be read is set aside and noted.
func load(path string) loaded {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return loaded{}
	}
	if err != nil {
		return loaded{notes: []string{"cannot read the table on disk: " + err.Error()}}
	}
	s, err := decode(b)
	if err != nil {
		return loaded{notes: []string{setAside(path, err)}}
	}
	out := loaded{snapshot: s, found: true, written: time.Now()}
	if info, err := os.Stat(path); err == nil {
		out.written = info.ModTime()
	}
	return out
}

// maxAside bounds how many files are set aside; then the last is replaced.
const maxAside = 9

// setAside renames a file that cannot be read, and says so.
func setAside(path string, why error) string {
	kind := "unreadable"
	if errors.Is(why, errNewer) {
		kind = "newer"
	}
	var to string
	for i := 1; i <= maxAside; i++ {
		to = fmt.Sprintf("%s.%s-%d", path, kind, i)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err := os.Rename(path, to); err != nil {
		return fmt.Sprintf("%v; it cannot be set aside: %v", why, err)
	}
	return fmt.Sprintf("%v; it was set aside as %s", why, filepath.Base(to))
}

// replace writes the file anew, so that at every moment, also after a loss of
// power, the file is the former one or this one, whole.
func replace(path string, content []byte) (err error) {
	tmp := path + ".tmp"
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot keep the table: %w", errors.Join(err, removed(tmp)))
		}
	}()
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// removed makes room again on a disk that is full.
func removed(tmp string) error {
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
