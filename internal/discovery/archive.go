package discovery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fairlead-platform/fairlead/internal/bucket"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// retention is for how many years sealed history is kept.
const retention = 5

const (
	archivePrefix = "history/"
	archiveFormat = "fairlead-history-1"
	maxArchived   = 256 << 20 // bytes of one part, unpacked
)

// Archive is the history that was sealed into the bucket: parts of one service
// each, which are never changed, and not deleted before the day in their names.
type Archive struct{ bucket bucket.Bucket }

// NewArchive is the archive in a bucket.
func NewArchive(b bucket.Bucket) Archive { return Archive{b} }

// Sealed is one document of the store as it was sealed.
type Sealed struct {
	Kind        string          `json:"kind"`
	Name        string          `json:"name"`
	Incarnation string          `json:"incarnation"` // of the store that had it
	At          time.Time       `json:"at"`
	Body        json.RawMessage `json:"body"`
}

// archiveHead is the first line of a part, which says what it is.
type archiveHead struct {
	Format  string    `json:"format"`
	Service string    `json:"service"`
	Lines   int       `json:"lines"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Until   time.Time `json:"until"` // it is kept
}

// Seal writes documents of one service as a part, in the order of their
// instants. When it returns nil they are on disk. The same documents again are
// the same part.
func (a Archive) Seal(ctx context.Context, name string, docs []Sealed, now time.Time) error {
	docs = slices.Clone(docs)
	slices.SortStableFunc(docs, func(x, y Sealed) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Name, y.Name)) })
	h := archiveHead{
		Format: archiveFormat, Service: name, Lines: len(docs), From: docs[0].At, To: docs[len(docs)-1].At, Until: now.AddDate(retention, 0, 0),
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, d := range docs {
		if err := enc.Encode(d); err != nil {
			return fmt.Errorf("cannot encode history: %w", err)
		}
	}
	body, err := packed(h, lines.Bytes())
	if err != nil {
		return err
	}
	sum := sha256.Sum256(lines.Bytes())
	part := fmt.Sprintf("%s%s/%012d-%012d-%s", archivePrefix, name, h.From.Unix(), h.To.Unix(), hex.EncodeToString(sum[:8]))
	_, err = a.bucket.Put(ctx, bucket.Retained(part, h.Until), bytes.NewReader(body), true)
	if err != nil && !errors.Is(err, bucket.ErrExists) {
		return fmt.Errorf("cannot seal history: %w", err)
	}
	return nil
}

// packed is a line that says what it is, and the rest compressed, with a
// checksum.
func packed(h archiveHead, lines []byte) ([]byte, error) {
	head, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("cannot encode history: %w", err)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("cannot compress history: %w", err)
	}
	return z.EncodeAll(lines, append(head, '\n')), z.Close()
}

// Read visits a service's sealed documents, the newest part first, until visit
// says that it is enough or there are no more. What cannot be read is passed
// over, and said in the error.
func (a Archive) Read(ctx context.Context, name string, visit func([]Sealed) (more bool)) error {
	list, err := a.bucket.List(ctx, archivePrefix+name+"/")
	if err != nil {
		return fmt.Errorf("cannot list sealed history: %w", err)
	}
	slices.SortFunc(list, func(x, y bucket.Info) int { return cmp.Compare(newest(y.Name), newest(x.Name)) })
	var all []error
	for _, info := range list {
		docs, err := a.part(ctx, info.Name)
		if err != nil {
			all = append(all, err)
			continue
		}
		if !visit(docs) {
			break
		}
	}
	return errors.Join(all...)
}

// Transitions adds a service's sealed transitions to those of the store, in the
// order of their ticks, reading older and older parts while more says so of
// what there is.
func (a Archive) Transitions(ctx context.Context, name string, all []Record, more func([]Record) bool) ([]Record, error) {
	seen := make(map[string]bool, len(all)) // :: name of a record → is there
	for _, r := range all {
		seen[r.key().Name] = true
	}
	var err error
	if more(all) {
		err = a.Read(ctx, name, func(docs []Sealed) bool {
			for _, d := range docs {
				var r Record
				if d.Kind == service.KindTransition && json.Unmarshal(d.Body, &r) == nil && !seen[d.Name] {
					seen[d.Name], all = true, append(all, r)
				}
			}
			return more(all)
		})
	}
	slices.SortStableFunc(all, func(x, y Record) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Tick, y.Tick)) })
	return all, err
}

// newest is the instant of the newest document of a part, as its name says it.
func newest(name string) string {
	_, span, _ := strings.Cut(strings.TrimPrefix(name, archivePrefix), "/")
	_, to, _ := strings.Cut(span, "-")
	return to
}

func (a Archive) part(ctx context.Context, name string) (docs []Sealed, err error) {
	r, _, err := a.bucket.Open(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read sealed history %s: %w", name, err)
	}
	defer r.Close()
	all, err := io.ReadAll(io.LimitReader(r, maxArchived))
	if err != nil {
		return nil, fmt.Errorf("cannot read sealed history %s: %w", name, err)
	}
	line, rest, _ := bytes.Cut(all, []byte{'\n'})
	var h archiveHead
	if err := json.Unmarshal(line, &h); err != nil || h.Format != archiveFormat {
		return nil, fmt.Errorf("cannot read sealed history %s: its first line is not that of a %s", name, archiveFormat)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxArchived))
	if err != nil {
		return nil, fmt.Errorf("cannot read sealed history %s: %w", name, err)
	}
	defer z.Close()
	lines, err := z.DecodeAll(rest, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot read sealed history %s: %w", name, err)
	}
	for dec := json.NewDecoder(bytes.NewReader(lines)); dec.More(); {
		var d Sealed
		if err := dec.Decode(&d); err != nil {
			return nil, fmt.Errorf("cannot read sealed history %s: %w", name, err)
		}
		docs = append(docs, d)
	}
	if len(docs) != h.Lines {
		return nil, fmt.Errorf("cannot read sealed history %s: it has %d lines of %d", name, len(docs), h.Lines)
	}
	return docs, nil
}

// Trim deletes parts whose day has passed.
func (a Archive) Trim(ctx context.Context, now time.Time) error {
	list, err := a.bucket.List(ctx, archivePrefix)
	if err != nil {
		return fmt.Errorf("cannot list sealed history: %w", err)
	}
	for _, info := range list {
		if until, retained := bucket.RetainedUntil(info.Name); retained && now.After(until) {
			if err := a.bucket.Delete(ctx, info.Name); err != nil {
				return fmt.Errorf("cannot delete old history: %w", err)
			}
		}
	}
	return nil
}
