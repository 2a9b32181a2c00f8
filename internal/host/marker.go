package host

import (
	"errors"
	"log/slog"
	"os"
	"strings"
)

type markerRecord struct {
	Marker string `json:"marker"`
}

// ownMarker is the folder's identity, minted once. When both copies are
// damaged, the processes that the folder's records name still carry it.
func (f *folder) ownMarker(log *slog.Logger) (string, error) {
	copies, err := readTwice[markerRecord](f, fileMarker, log)
	if errors.Is(err, errDamaged) {
		err = f.setBothAside(fileMarker, err, log)
	}
	if err != nil {
		return "", err
	}
	for _, m := range copies {
		if safeName.MatchString(m.Marker) {
			return m.Marker, nil
		}
	}
	m := markerRecord{Marker: f.markerCarried()}
	if m.Marker == "" {
		m.Marker = mint(nil)
	} else {
		log.Warn("the folder's identity is recovered from its processes", "folder", f.dir)
	}
	return m.Marker, f.writeTwice(fileMarker, m)
}

// markerCarried is the marker of a process whose instance has a record in this
// folder, damaged or not: a process is made after its record. Empty means none.
func (f *folder) markerCarried() string {
	entries, err := os.ReadDir(f.path(dirInstances))
	if err != nil {
		return ""
	}
	ours := map[string]bool{} // :: instance
	for _, e := range entries {
		ours[strings.TrimSuffix(strings.TrimSuffix(e.Name(), asideExt), ".json")] = true
	}
	all, err := allProcs()
	if err != nil {
		return ""
	}
	for _, p := range all {
		id, _ := environOf(p.pid, envInstance)
		if marker, ok := environOf(p.pid, envHost); ok && ours[id] && safeName.MatchString(marker) {
			return marker
		}
	}
	return ""
}
