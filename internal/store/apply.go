package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"unicode/utf8"
)

// Limits of an Apply, in bytes. Every engine refuses more, as ErrInvalid.
const (
	MaxID   = 64
	MaxKind = 64
	MaxName = 512
	MaxBody = 4 << 20
)

// Digest identifies what an Apply asks for, its ID and Essential aside.
type Digest [sha256.Size]byte

// Validate returns an error wrapping ErrInvalid where a breaks a rule that
// holds for every engine.
func (a Apply) Validate() error {
	if a.ID == "" || len(a.ID) > MaxID || !utf8.ValidString(a.ID) {
		return fmt.Errorf("%w: its ID must have 1 to %d bytes of UTF-8, not %q", ErrInvalid, MaxID, a.ID)
	}
	if len(a.Checks)+len(a.Writes) == 0 {
		return fmt.Errorf("%w: %s has neither checks nor writes", ErrInvalid, a.ID)
	}
	for _, c := range a.Checks {
		if err := c.Key.Validate(); err != nil {
			return err
		}
	}
	written := make(map[Key]bool, len(a.Writes)) // :: key → already written by this Apply
	for _, w := range a.Writes {
		if err := w.validate(); err != nil {
			return err
		}
		if written[w.Key] {
			return fmt.Errorf("%w: %s writes %s twice", ErrInvalid, a.ID, w.Key)
		}
		written[w.Key] = true
	}
	return nil
}

// Validate returns an error wrapping ErrInvalid where k names no document.
func (k Key) Validate() error {
	if k.Kind == "" || len(k.Kind) > MaxKind {
		return fmt.Errorf("%w: a kind must have 1 to %d bytes, not %q", ErrInvalid, MaxKind, k.Kind)
	}
	for _, r := range k.Kind {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return fmt.Errorf("%w: a kind has lower-case letters, digits and dashes only, not %q", ErrInvalid, k.Kind)
		}
	}
	if k.Name == "" || len(k.Name) > MaxName || !utf8.ValidString(k.Name) {
		return fmt.Errorf("%w: a name must have 1 to %d bytes of UTF-8, not %q", ErrInvalid, MaxName, k.Name)
	}
	for _, r := range k.Name {
		if r < ' ' || r == 0x7f {
			return fmt.Errorf("%w: a name has no control characters: %q", ErrInvalid, k.Name)
		}
	}
	return nil
}

func (w Write) validate() error {
	if err := w.Key.Validate(); err != nil {
		return err
	}
	if w.Delete {
		return nil
	}
	if len(w.Body) > MaxBody {
		return fmt.Errorf("%w: the body of %s has %d bytes, at most %d are kept", ErrInvalid, w.Key, len(w.Body), MaxBody)
	}
	if !utf8.Valid(w.Body) || !json.Valid(w.Body) {
		return fmt.Errorf("%w: the body of %s is not JSON in UTF-8", ErrInvalid, w.Key)
	}
	return nil
}

// OnlyDeletes says that a removes documents and writes none.
func (a Apply) OnlyDeletes() bool {
	for _, w := range a.Writes {
		if !w.Delete {
			return false
		}
	}
	return len(a.Writes) > 0
}

// Judge holds a's checks and writes against what stands, which lookup gives
// (the zero Document where nothing stands). It returns a *ConflictError for
// the first that does not hold, lookup's error, or nil: a may be done.
func (a Apply) Judge(lookup func(Key) (Document, error)) error {
	for _, c := range a.Checks {
		stands, err := lookup(c.Key)
		if err != nil {
			return err
		}
		if stands.Version != c.Version {
			return &ConflictError{Key: c.Key, Expected: c.Version, Stands: stands}
		}
	}
	for _, w := range a.Writes {
		if w.Any {
			continue
		}
		stands, err := lookup(w.Key)
		if err != nil {
			return err
		}
		if stands.Version != w.Expect || (w.Delete && stands.Version == 0) {
			return &ConflictError{Key: w.Key, Expected: w.Expect, Stands: stands}
		}
	}
	return nil
}

// Digest returns the digest by which a repeated Apply is told from another
// one that was given the same ID.
func (a Apply) Digest() Digest {
	h := sha256.New()
	putNumber(h, uint64(len(a.Checks)))
	for _, c := range a.Checks {
		putKey(h, c.Key)
		putNumber(h, c.Version)
	}
	for _, w := range a.Writes {
		putKey(h, w.Key)
		putNumber(h, w.Expect)
		putFlags(h, w.Any, w.Delete)
		if !w.Delete {
			putBytes(h, w.Body)
		}
	}
	return Digest(h.Sum(nil))
}

// A hash.Hash never returns an error, so the following have none to give.

func putKey(h hash.Hash, k Key) {
	putBytes(h, []byte(k.Kind))
	putBytes(h, []byte(k.Name))
}

func putBytes(h hash.Hash, b []byte) {
	putNumber(h, uint64(len(b)))
	h.Write(b)
}

func putNumber(h hash.Hash, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

func putFlags(h hash.Hash, flags ...bool) {
	for _, f := range flags {
		b := byte(0)
		if f {
			b = 1
		}
		h.Write([]byte{b})
	}
}
