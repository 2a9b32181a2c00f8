package identity

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Refusals is the refusal list of one process: identities that were revoked, as
// ROLE/NAME. Whoever is on it is answered nothing ([Guard.Refused]), and his
// connections to the servers that know the list are closed. The zero Refusals
// refuse nobody, and so do nil ones.
type Refusals struct {
	mu      sync.Mutex
	refused map[string]bool
	open    map[string]map[io.Closer]bool // :: ROLE/NAME → its connections
	changed chan struct{}                 // closed at the next change; nil: nobody waits
}

// subject is how a refusal list names an identity.
func (id ID) subject() string { return string(id.Role) + "/" + id.Name }

// Refused is for [Guard] and [ServerOptions].
func (r *Refusals) Refused(id ID, _ string) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused[id.subject()]
}

// Set replaces the list, and closes the connections of who is new on it.
func (r *Refusals) Set(refused []string) {
	r.mu.Lock()
	before := r.refused
	r.refused = make(map[string]bool, len(refused))
	var ended []io.Closer
	for _, subject := range refused {
		r.refused[subject] = true
		ended = slices.AppendSeq(ended, maps.Keys(r.open[subject]))
	}
	if changed := r.changed; changed != nil && !maps.Equal(before, r.refused) {
		r.changed = nil
		close(changed)
	}
	r.mu.Unlock()
	for _, c := range ended {
		_ = c.Close() // who is at its other end learns why when he comes back
	}
}

// List is who is refused, in order; changed is closed once it is another list.
func (r *Refusals) List() (refused []string, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return slices.Sorted(maps.Keys(r.refused)), r.changed
}

// hold has a connection closed once its peer is refused, until drop is called.
func (r *Refusals) hold(id ID, c io.Closer) (drop func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	subject := id.subject()
	if r.open[subject] == nil {
		if r.open == nil {
			r.open = map[string]map[io.Closer]bool{}
		}
		r.open[subject] = map[io.Closer]bool{}
	}
	r.open[subject][c] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.open[subject], c); len(r.open[subject]) == 0 {
			delete(r.open, subject)
		}
	}
}

// LoadRefusals reads what KeepRefusals wrote; none where there is no file.
func LoadRefusals(path string) (refused []string, err error) {
	b, err := readPrivate(path)
	if err != nil || b == nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &refused); err != nil {
		return nil, fmt.Errorf("cannot read the refusal list %s: %w", path, err)
	}
	return refused, nil
}

// KeepRefusals has the list outlive its process.
func KeepRefusals(path string, refused []string) error {
	b, err := json.Marshal(refused)
	if err != nil {
		return fmt.Errorf("cannot encode the refusal list: %w", err)
	}
	return writePrivate(path, b)
}

// ParseRevocable reads ROLE/NAME, or the NAME of a caller, where that is an
// identity that can be revoked: one that nothing else ends.
func ParseRevocable(s string) (role Role, name string, err error) {
	role, name = Caller, s
	if r, n, ok := strings.Cut(s, "/"); ok {
		role, name = Role(r), n
	}
	switch role {
	case Caller, Agent, Relay, Prober:
		return role, name, CheckName(name)
	case Host, Gateway:
		return role, name, fmt.Errorf("a %s is not revoked but retired: fairlead %ss retire %s", role, role, name)
	}
	return role, name, fmt.Errorf("cannot revoke the identity of a %s: those of callers, agents, relays and probers can be", role)
}
