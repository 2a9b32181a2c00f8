package resolver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A file is one header line, "KIND FORMAT sha256:HEX LENGTH", and then a body, of
// which the header gives checksum and length. Body 1 is JSON.
type kind struct {
	magic  string
	what   string // it holds, for people
	format int    // that is written; earlier ones are read too
	// Of formats beyond 1; nil where there is none.
	marshal   func(any) ([]byte, error)
	unmarshal func(body []byte, into any) error
}

var (
	tableFile = kind{magic: "fairlead-table", what: "the table", format: 1}  // of a view.Snapshot
	doorsFile = kind{magic: "fairlead-doors", what: "the relays", format: 1} // of doors
	marksFile = kind{magic: "fairlead-marks", what: "the marks", format: 1}  // of view.Marks
	viewFile  = kind{                                                        // of a view.ServiceSnapshot
		magic: "fairlead-view", what: "the view", format: 2, marshal: marshalView, unmarshal: unmarshalView,
	}
)

var errNewer = errors.New("the file was written by a newer program")

// encode makes the content of a file.
func (k kind) encode(x any) ([]byte, error) {
	marshal := json.Marshal
	if k.format > 1 {
		marshal = k.marshal
	}
	body, err := marshal(x)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", k.what, err)
	}
	return k.frame(body), nil
}

func (k kind) frame(body []byte) []byte {
	sum := sha256.Sum256(body)
	head := fmt.Appendf(nil, "%s %d sha256:%s %d\n", k.magic, k.format, hex.EncodeToString(sum[:]), len(body))
	return append(head, body...)
}

// decode reads what encode made. The error wraps errNewer for a format of a
// newer program, and is of another kind for anything else that is no such file.
func (k kind) decode(b []byte, into any) error {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return fmt.Errorf("cannot read %s: it has no header", k.what)
	}
	var name, sum string
	var version, length int
	// A newer format may have another header after its number.
	n := scanHead(string(head), &name, &version, &sum, &length)
	if name != k.magic || n < 2 {
		return fmt.Errorf("cannot read %s: its header is not ours", k.what)
	}
	if version > k.format {
		return fmt.Errorf("cannot read %s of format %d: %w", k.what, version, errNewer)
	}
	if version < 1 || len(body) != length {
		return fmt.Errorf("cannot read %s: format %d with %d of %d bytes", k.what, version, len(body), length)
	}
	if got := sha256.Sum256(body); sum != hex.EncodeToString(got[:]) {
		return fmt.Errorf("cannot read %s: its checksum does not agree", k.what)
	}
	unmarshal := json.Unmarshal
	if version > 1 {
		unmarshal = k.unmarshal
	}
	if err := unmarshal(body, into); err != nil {
		return fmt.Errorf("cannot read %s: %w", k.what, err)
	}
	return nil
}

// scanHead says how many fields it found.
func scanHead(head string, name *string, version *int, sum *string, length *int) (n int) {
	fields := strings.Fields(head)
	number := func(i int, into *int) bool {
		x, err := strconv.Atoi(fields[i])
		*into = x
		return err == nil
	}
	if len(fields) < 2 {
		return len(fields)
	}
	if *name = fields[0]; !number(1, version) {
		return 1
	}
	if len(fields) < 4 || !number(3, length) {
		return 2
	}
	*sum = strings.TrimPrefix(fields[2], "sha256:")
	return 4
}

type loaded struct {
	found   bool
	written time.Time
	notes   []string
}

// load reads a file; what cannot be read is set aside and noted.
func (k kind) load(path string, into any) loaded {
	b, written, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return loaded{}
	}
	if err != nil {
		return loaded{notes: []string{"cannot read " + k.what + " on disk: " + err.Error()}}
	}
	if err := k.decode(b, into); err != nil {
		return loaded{notes: []string{setAside(path, err)}}
	}
	return loaded{found: true, written: written}
}

func readFile(path string) (content []byte, written time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, written, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, written, err
	}
	content = make([]byte, info.Size())
	_, err = io.ReadFull(f, content)
	return content, info.ModTime(), err
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
func (k kind) replace(path string, content []byte) (err error) {
	tmp := path + ".tmp"
	defer func() {
		if err != nil {
			err = fmt.Errorf("cannot keep "+k.what+": %w", errors.Join(err, removed(tmp)))
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
