package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key store.Key) (store.Document, error) {
	if err := s.usable(ctx); err != nil {
		return store.Document{}, err
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok := b.documents[key.Kind][key.Name]
	if !ok {
		return store.Document{}, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return clone(d), nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, kind string) ([]store.Document, uint64, error) {
	if err := s.usable(ctx); err != nil {
		return nil, 0, err
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []store.Document
	for k, names := range b.documents {
		if kind != "" && kind != k {
			continue
		}
		for _, d := range names {
			list = append(list, clone(d))
		}
	}
	slices.SortFunc(list, func(x, y store.Document) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
	return list, b.sequence, nil
}

// Apply implements store.Store. It never answers store.ErrUnknown.
func (s *Store) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	if err := s.usable(ctx); err != nil {
		return store.Result{}, err
	}
	if err := a.Validate(); err != nil {
		return store.Result{}, err
	}
	digest := a.Digest()
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pruneLocked()
	if earlier, ok := b.identities[a.ID]; ok {
		if earlier.digest != digest {
			return store.Result{}, fmt.Errorf("%w: ID %s was used for other content at sequence %d", store.ErrInvalid, a.ID, earlier.sequence)
		}
		return store.Result{Sequence: earlier.sequence, Repeated: true}, nil
	}
	if err := a.Judge(b.standsLocked); err != nil {
		return store.Result{}, err
	}
	b.commitLocked(a, digest)
	return store.Result{Sequence: b.sequence}, nil
}

func (b *Backend) standsLocked(key store.Key) (store.Document, error) {
	return clone(b.documents[key.Kind][key.Name]), nil
}

func (b *Backend) commitLocked(a store.Apply, digest store.Digest) {
	b.sequence++
	c := store.Commit{Sequence: b.sequence, ApplyID: a.ID}
	for _, w := range a.Writes {
		if change, changed := b.writeLocked(w); changed {
			c.Changes = append(c.Changes, change)
		}
	}
	now := b.options.Now()
	b.log = append(b.log, entry{commit: c, at: now})
	done := identity{id: a.ID, digest: digest, sequence: b.sequence, at: now}
	b.identities[a.ID] = done
	b.ages = append(b.ages, done)
	b.pruneLocked()
	close(b.wake)
	b.wake = make(chan struct{})
}

// writeLocked does one write and reports whether it changed anything.
func (b *Backend) writeLocked(w store.Write) (store.Change, bool) {
	names := b.documents[w.Kind]
	if w.Delete {
		if _, ok := names[w.Name]; !ok {
			return store.Change{}, false
		}
		delete(names, w.Name)
		return store.Change{Document: store.Document{Key: w.Key, Version: b.sequence}, Deleted: true}, true
	}
	if names == nil {
		names = map[string]store.Document{}
		b.documents[w.Kind] = names
	}
	d := store.Document{Key: w.Key, Version: b.sequence, Body: bytes.Clone(w.Body)}
	names[w.Name] = d
	return store.Change{Document: d}, true
}

// pruneLocked forgets what is past its retention.
func (b *Backend) pruneLocked() {
	cutoff := b.options.Now().Add(-b.options.Retention)
	n := 0
	for n < len(b.log) && b.log[n].at.Before(cutoff) {
		n++
	}
	if keep := b.options.KeepCommits; keep > 0 {
		n = max(n, len(b.log)-keep)
	}
	b.log = slices.Delete(b.log, 0, n)
	b.floor += uint64(n)
	n = 0
	for n < len(b.ages) && b.ages[n].at.Before(cutoff) {
		delete(b.identities, b.ages[n].id)
		n++
	}
	b.ages = slices.Delete(b.ages, 0, n)
}

func clone(d store.Document) store.Document {
	d.Body = bytes.Clone(d.Body)
	return d
}
