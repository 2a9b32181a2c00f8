package host

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errDamaged says that a record is there and cannot be believed.
var errDamaged = errors.New("the record is damaged")

// asideExt ends the name of a damaged record that was put aside.
const asideExt = ".bad"

// sumKey begins the checksum, the last member of every record: a flipped byte
// may leave JSON that is valid and wrong.
const (
	sumKey = `"sum":"`
	sumLen = 16 // hexadecimal digits
)

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:sumLen]
}

// seal adds the checksum to a JSON object.
func seal(b []byte) []byte {
	open := bytes.TrimSuffix(b, []byte("}"))
	out := bytes.Clone(open)
	if len(open) > 1 {
		out = append(out, ',')
	}
	return append(out, sumKey+sumOf(b)+`"}`...)
}

// unseal removes the checksum and says whether it holds. A record without one
// is of an earlier version, and is taken as it is.
func unseal(b []byte) ([]byte, error) {
	at := len(b) - len(sumKey) - sumLen - len(`"}`)
	if at < 1 || !bytes.HasPrefix(b[at:], []byte(sumKey)) {
		return b, nil
	}
	body := append(bytes.TrimSuffix(bytes.Clone(b[:at]), []byte(",")), '}')
	if string(b[at:]) != sumKey+sumOf(body)+`"}` {
		return nil, errors.New("its checksum does not hold")
	}
	return body, nil
}

// checked is a record that knows whether it is the one of its name.
type checked interface{ check(name string) error }

// check refuses a record that says nothing of the slot that it is named after.
func (r slotRecord) check(name string) error {
	if r.Assignment.Slot != name {
		return fmt.Errorf("it is of slot %q", r.Assignment.Slot)
	}
	return nil
}

// check refuses a record that is of no slot or of another instance.
func (r record) check(name string) error {
	if r.ID != name || !safeName.MatchString(r.Assignment.Slot) {
		return fmt.Errorf("it is of instance %q, slot %q", r.ID, r.Assignment.Slot)
	}
	return nil
}

// read decodes a record; os.ErrNotExist when there is none, errDamaged when it
// cannot be believed.
func (f *folder) read(name string, into any) error {
	b, err := os.ReadFile(f.path(name))
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", f.path(name), err)
	}
	if b, err = unseal(b); err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return fmt.Errorf("cannot read %s: %w: %w", f.path(name), errDamaged, err)
	}
	return nil
}

// setAside renames a damaged record, so that people can still look at it.
func (f *folder) setAside(name string, why error, log *slog.Logger) error {
	log.Error("put aside a record that cannot be read", "record", f.path(name), "now", f.path(name)+asideExt, "error", why)
	if err := os.Rename(f.path(name), f.path(name)+asideExt); err != nil {
		return fmt.Errorf("cannot put %s aside: %w", f.path(name), err)
	}
	return nil
}

// readAll decodes every record of a kind, :: name → record. One that is
// damaged is put aside, is logged, and stops nothing else; its name is returned
// as long as no whole record has taken its place.
func readAll[T checked](f *folder, kind string, log *slog.Logger) (map[string]T, map[string]bool, error) {
	entries, err := os.ReadDir(f.path(kind))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the host's %s: %w", kind, err)
	}
	whole, damaged := map[string]T{}, map[string]bool{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"+asideExt); ok {
			damaged[name] = true
		}
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		var v T
		file := filepath.Join(kind, e.Name())
		err := f.read(file, &v)
		if err == nil {
			err = v.check(name)
		}
		if err == nil {
			whole[name] = v
			continue
		}
		damaged[name] = true
		if err := f.setAside(file, err, log); err != nil {
			return nil, nil, err
		}
	}
	for name := range whole {
		delete(damaged, name)
	}
	return whole, damaged, nil
}

// Records that nothing else could tell are kept twice. The copy is written
// first, so that, whole, it is never older than the other.

func copyOf(name string) string { return name + ".1" }

// writeTwice replaces both copies of a record.
func (f *folder) writeTwice(name string, v any) error {
	if err := f.write(copyOf(name), v); err != nil {
		return err
	}
	return f.write(name, v)
}

// readTwice gives the whole copies of a record, the one written first in
// front; none when there is no file. Where one is damaged or missing it is
// replaced by the other. When none is whole it is errDamaged, and both stay
// where they are.
func readTwice[T any](f *folder, name string, log *slog.Logger) ([]T, error) {
	var out []T
	damage := map[string]error{} // :: file → why
	for _, file := range []string{copyOf(name), name} {
		var v T
		err := f.read(file, &v)
		switch {
		case err == nil:
			out = append(out, v)
		case errors.Is(err, errDamaged):
			damage[file] = err
		case ignoreMissing(err) != nil:
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, errors.Join(slices.Collect(maps.Values(damage))...)
	}
	for file, why := range damage {
		if err := f.setAside(file, why, log); err != nil {
			return nil, err
		}
	}
	if len(out) == 1 {
		if err := f.writeTwice(name, out[0]); err != nil {
			log.Error("a record is kept once only", "error", err)
		}
	}
	return out, nil
}

// setBothAside puts both damaged copies of a record aside.
func (f *folder) setBothAside(name string, why error, log *slog.Logger) error {
	return errors.Join(ignoreMissing(f.setAside(copyOf(name), why, log)), ignoreMissing(f.setAside(name, why, log)))
}
