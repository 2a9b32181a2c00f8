package sqlite

import (
	"bytes"
	"slices"
	"sync"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Bounds of the tail.
const (
	tailCommits = 512
	tailBytes   = 1 << 20 // of bodies
)

// tail holds the newest commits, so that watchers who keep up need not read
// the file. Whoever is further behind reads the file.
type tail struct {
	mu       sync.Mutex
	sequence uint64
	commits  []store.Commit // without a gap, the last one at sequence
	bytes    int
	wake     chan struct{} // closed and replaced when sequence grows
	foreign  chan struct{} // closed and replaced when another program has written
}

func newTail(sequence uint64) *tail {
	return &tail{sequence: sequence, wake: make(chan struct{}), foreign: make(chan struct{})}
}

// own is closed once another program has written.
func (t *tail) own() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.foreign
}

// disown ends what follows the log: another program has written.
func (t *tail) disown(sequence uint64) {
	t.reset(sequence)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.foreign)
	t.foreign = make(chan struct{})
}

// after returns the commit after from; or, where there is none yet, the
// channel that is closed by the next; or neither: the file has it.
func (t *tail) after(from uint64) (store.Commit, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if from >= t.sequence {
		return store.Commit{}, t.wake
	}
	behind := int(min(t.sequence-from, tailCommits+1))
	if behind > len(t.commits) {
		return store.Commit{}, nil
	}
	c := t.commits[len(t.commits)-behind]
	c.Changes = slices.Clone(c.Changes)
	for i := range c.Changes {
		c.Changes[i].Body = bytes.Clone(c.Changes[i].Body)
	}
	return c, nil
}

func (t *tail) append(commits []store.Commit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range commits {
		t.commits = append(t.commits, c)
		t.sequence = c.Sequence
		t.bytes += size(c)
	}
	n := 0
	for n < len(t.commits) && (len(t.commits)-n > tailCommits || t.bytes > tailBytes) {
		t.bytes -= size(t.commits[n])
		n++
	}
	t.commits = slices.Delete(t.commits, 0, n)
	t.wakeLocked()
}

// reset forgets the commits: the file is at sequence, and has them.
func (t *tail) reset(sequence uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sequence, t.commits, t.bytes = sequence, nil, 0
	t.wakeLocked()
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
