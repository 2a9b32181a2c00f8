package postgres

import (
	"bytes"
	"slices"
	"sort"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Bounds of the tail.
const (
	tailCommits = 512
	tailBytes   = 1 << 20 // of bodies
)

// tail holds the newest commits, so that watchers who keep up need not ask
// the server. Whoever is further behind does.
type tail struct {
	mu       sync.Mutex
	base     uint64 // all commits after this one, up to sequence, are in commits
	sequence uint64
	commits  []store.Commit
	bytes    int
	era      int           // counts how often the server was found behind sequence
	wake     chan struct{} // closed and replaced when anything changes
}

func newTail(sequence uint64) *tail {
	return &tail{base: sequence, sequence: sequence, wake: make(chan struct{})}
}

// after returns the commit after from; or, where there is none yet, the
// channel that is closed by the next; or neither: the server has it.
func (t *tail) after(from uint64) (store.Commit, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from >= t.sequence {
		return store.Commit{}, t.wake
	}
	if from < t.base {
		return store.Commit{}, nil
	}
	// Sequences have gaps: the number of a commit that met a conflict is not used.
	i := sort.Search(len(t.commits), func(i int) bool { return t.commits[i].Sequence > from })
	c := t.commits[i]
	c.Changes = slices.Clone(c.Changes)
	for i := range c.Changes {
		c.Changes[i].Body = bytes.Clone(c.Changes[i].Body)
	}
	return c, nil
}

// append adds commits that follow on known without a gap. It says false, and
// does nothing, where the tail does not end at known: it lacks something.
func (t *tail) append(known uint64, commits []store.Commit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sequence != known {
		return false
	}
	for _, c := range commits {
		t.commits = append(t.commits, c)
		t.sequence = c.Sequence
		t.bytes += size(c)
	}
	n := 0
	for n < len(t.commits) && (len(t.commits)-n > tailCommits || t.bytes > tailBytes) {
		t.bytes -= size(t.commits[n])
		t.base = t.commits[n].Sequence
		n++
	}
	t.commits = slices.Delete(t.commits, 0, n)
	t.wakeLocked()
	return true
}

// reset forgets the commits, as the server is at sequence and has them.
func (t *tail) reset(sequence uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.base, t.sequence, t.commits, t.bytes = sequence, sequence, nil, 0
	t.wakeLocked()
}

// rewind is reset to a server that has lost commits; it begins another era.
func (t *tail) rewind(sequence uint64) {
	t.mu.Lock()
	t.era++
	t.mu.Unlock()
	t.reset(sequence)
}

func (t *tail) at() (sequence uint64, era int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sequence, t.era
}

func (t *tail) wakeLocked() {
	close(t.wake)
	t.wake = make(chan struct{})
}

func size(c store.Commit) int {
	n := 0
	for _, x := range c.Changes {
		n += len(x.Body)
	}
	return n
}
