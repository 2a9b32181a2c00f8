package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fairlead-platform/fairlead/internal/surface/views"
)

const doorsFile = "doors.json"

// loadDoors reads the share that control told last: a relay that starts while
// control is away admits no more than it.
func (r *Relay) loadDoors() (d views.Doors) {
	path := filepath.Join(r.cfg.Folder, doorsFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d
	}
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		r.cfg.Log.Warn("cannot read how many are to be admitted: as few as there can be, until control says it", "file", path, "error", err)
		return views.Doors{}
	}
	return d
}

// keepDoors has it outlive this process.
func (r *Relay) keepDoors(d views.Doors) {
	if err := replace(filepath.Join(r.cfg.Folder, doorsFile), d); err != nil {
		r.cfg.Log.Warn("cannot keep how many are to be admitted", "error", err)
	}
}

func replace(path string, x any) error {
	b, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, errors.Join(err, os.Remove(tmp)))
	}
	return nil
}
