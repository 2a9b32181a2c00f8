package service

// EffectHold notes in a saga until when, as RFC 3339, what is to end has time
// to, while requests are held for what comes after it.
const EffectHold = "hold until"

// Process is an instance, and the revision that it is of.
type Process struct {
	Instance
	// Of is the name of the revision, and of which life where that is an earlier one.
	Of string
}

// Beside are the processes that may run and are not of the named revision. Those
// on a host that a person has retired are taken to have ended.
func (s *Snapshot) Beside(name string, w *World) []Process {
	var out []Process
	for _, i := range w.Of[s.Service] {
		if w.IsRetired(i.Host) || i.State == InstanceExited {
			continue
		}
		of := i.Revision
		if r := s.Revision(of); r.Exists() && !r.Value.Owns(i) {
			of += " of an earlier life" // what nobody asks for is stopped by its host's word or the next pass
		}
		if of != name {
			out = append(out, Process{i, of})
		}
	}
	return out
}
