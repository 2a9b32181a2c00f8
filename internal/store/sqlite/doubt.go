package sqlite

import "github.com/fairlead-platform/fairlead/internal/store/queue"

// doubtLimit bounds the identities that are kept as doubtful. Beyond it one of
// them is forgotten: should it come again while the disk fails, it is told
// that nothing was written, which is then true of the repetition only.
const doubtLimit = 4096

// doubtful are Applies whose caller was told that the answer is unknown, and
// that were not looked up since. :: Apply ID → is one
type doubtful map[string]bool

func (s *Store) doubt(id string) {
	for other := range s.doubtful {
		if len(s.doubtful) < doubtLimit {
			break
		}
		delete(s.doubtful, other)
	}
	s.doubtful[id] = true
}

// doubtLeft keeps those as doubtful whose caller had left before the answer,
// unless that is that nothing was written.
func (s *Store) doubtLeft(group []*queue.Request) {
	for _, r := range group {
		if r.InDoubt() {
			s.doubt(r.Apply.ID)
		}
	}
}
