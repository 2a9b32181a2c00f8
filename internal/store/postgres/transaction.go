package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/queue"
)

// writeBytes bounds the bodies that one statement writes.
const writeBytes = 16 << 20

// done is what the server remembers of an Apply.
type done struct {
	sequence uint64
	digest   []byte
}

type answer struct {
	result store.Result
	err    error
}

// place of a change: which of which commit.
type place struct{ commit, position int }

// transaction is one group on its way. Nothing of it counts until it is committed.
type transaction struct {
	group   []*queue.Request
	head    head
	numbers []uint64                     // for commits, ascending; none where the server takes no writes
	earlier map[string]done              // :: Apply ID → what an earlier one did
	stands  map[store.Key]store.Document // :: key → what stands; the body only where this group wrote it

	answers []answer
	commits []store.Commit
	digests [][]byte
	last    map[store.Key]place // :: key → its last change within the group
}

func newTransaction(group []*queue.Request) *transaction {
	return &transaction{group: group, earlier: map[string]done{}, stands: map[store.Key]store.Document{}, last: map[store.Key]place{}}
}

func (t *transaction) ids() []string {
	ids := make([]string, len(t.group))
	for i, r := range t.group {
		ids[i] = encodeID(r.Apply.ID)
	}
	return ids
}

// keys returns what the group checks or writes, each once, as columns.
func (t *transaction) keys() (kinds, names []string) {
	seen := map[store.Key]bool{} // :: key → is in the columns
	add := func(k store.Key) {
		if !seen[k] {
			seen[k] = true
			kinds, names = append(kinds, k.Kind), append(names, k.Name)
		}
	}
	for _, r := range t.group {
		for _, c := range r.Apply.Checks {
			add(c.Key)
		}
		for _, w := range r.Apply.Writes {
			add(w.Key)
		}
	}
	return kinds, names
}

func (t *transaction) scanNumbers(rows pgx.Rows) error {
	for rows.Next() {
		var n uint64
		if err := rows.Scan(&n); err != nil {
			return err
		}
		t.numbers = append(t.numbers, n)
	}
	return rows.Err()
}

func (t *transaction) scanEarlier(rows pgx.Rows) error { return scanEarlier(rows, t.earlier) }

func scanEarlier(rows pgx.Rows, into map[string]done) error {
	for rows.Next() {
		var id string
		var d done
		if err := rows.Scan(&id, &d.sequence, &d.digest); err != nil {
			return err
		}
		into[decodeID(id)] = d
	}
	return rows.Err()
}

func (t *transaction) scanStands(rows pgx.Rows) error {
	for rows.Next() {
		var d store.Document
		if err := rows.Scan(&d.Kind, &d.Name, &d.Version); err != nil {
			return err
		}
		t.stands[d.Key] = d
	}
	return rows.Err()
}

func (t *transaction) judgeAll() {
	t.answers = make([]answer, len(t.group))
	for i, r := range t.group {
		result, err := t.do(r)
		t.answers[i] = answer{result: result, err: err}
	}
}

// do does one request in memory. A conflict is that request's own answer.
func (t *transaction) do(r *queue.Request) (store.Result, error) {
	if d, found := t.earlier[r.Apply.ID]; found {
		return d.repeated(r)
	}
	if err := r.Apply.Judge(func(k store.Key) (store.Document, error) { return t.stands[k], nil }); err != nil {
		return store.Result{}, err
	}
	if len(t.numbers) == 0 {
		return store.Result{}, fmt.Errorf("cannot apply %s: %w: %w: the server takes no writes, as a standby or by its settings", r.Apply.ID, errNothingWritten, store.ErrReadOnly)
	}
	c := store.Commit{Sequence: t.numbers[0], ApplyID: r.Apply.ID}
	t.numbers = t.numbers[1:]
	for _, w := range r.Apply.Writes {
		t.writeOne(&c, w)
	}
	t.commits = append(t.commits, c)
	t.digests = append(t.digests, r.Digest[:])
	t.earlier[r.Apply.ID] = done{sequence: c.Sequence, digest: r.Digest[:]}
	return store.Result{Sequence: c.Sequence}, nil
}

func (d done) repeated(r *queue.Request) (store.Result, error) {
	if !bytes.Equal(d.digest, r.Digest[:]) {
		return store.Result{}, fmt.Errorf("%w: ID %s was used for other content at sequence %d", store.ErrInvalid, r.Apply.ID, d.sequence)
	}
	return store.Result{Sequence: d.sequence, Repeated: true}, nil
}

// writeOne adds to c what w changes.
func (t *transaction) writeOne(c *store.Commit, w store.Write) {
	if w.Delete && t.stands[w.Key].Version == 0 {
		return
	}
	change := store.Change{Document: store.Document{Key: w.Key, Version: c.Sequence, Body: w.Body}, Deleted: w.Delete}
	if w.Delete {
		change.Body = nil
		t.stands[w.Key] = store.Document{}
	} else {
		t.stands[w.Key] = change.Document
	}
	t.last[w.Key] = place{commit: len(t.commits), position: len(c.Changes)}
	c.Changes = append(c.Changes, change)
}

var errRolledBack = errors.New("the server rolled the transaction back")

// writes is the second round trip: everything, the wake-up, and COMMIT.
func (s *Store) writes(t *transaction) *pgx.Batch {
	q, b := &s.queries, &pgx.Batch{}
	rows := t.queueLog(q, b, s.options.Now)
	t.queueDocuments(q, b)
	newest := t.commits[len(t.commits)-1].Sequence
	b.Queue(q.advance, int64(newest), rows)
	if !s.options.faults.mute {
		b.Queue(`SELECT pg_notify($1, $2)`, q.channel, fmt.Sprint(newest))
	}
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errRolledBack
		}
		return nil
	})
	return b
}

// queueLog queues the commits and their changes, and returns the number of these.
func (t *transaction) queueLog(q *queries, b *pgx.Batch, now func() time.Time) int64 {
	var at *time.Time
	if now != nil {
		n := now()
		at = &n
	}
	var sequences []int64
	var ids []string
	var columns changeColumns
	rows := 0
	for _, c := range t.commits {
		sequences, ids = append(sequences, int64(c.Sequence)), append(ids, encodeID(c.ApplyID))
		for i, x := range c.Changes {
			if columns.bytes > writeBytes {
				columns.queue(q, b)
			}
			columns.add(c.Sequence, i, x)
			rows++
		}
	}
	b.Queue(q.commits, sequences, ids, t.digests, at)
	columns.queue(q, b)
	return int64(rows)
}

// changeColumns are rows of changes on their way, as columns.
type changeColumns struct {
	sequences    []int64
	positions    []int32
	kinds, names []string
	bodies       []*string
	bytes        int
}

func (c *changeColumns) add(sequence uint64, position int, x store.Change) {
	c.sequences, c.positions = append(c.sequences, int64(sequence)), append(c.positions, int32(position))
	c.kinds, c.names = append(c.kinds, x.Kind), append(c.names, x.Name)
	var body *string
	if !x.Deleted {
		text := string(x.Body)
		body = &text
	}
	c.bodies = append(c.bodies, body)
	c.bytes += len(x.Body)
}

func (c *changeColumns) queue(q *queries, b *pgx.Batch) {
	if len(c.sequences) > 0 {
		b.Queue(q.changes, c.sequences, c.positions, c.kinds, c.names, c.bodies)
	}
	*c = changeColumns{}
}

// queueDocuments queues what stands in the end. Bodies are taken from the
// changes, so that each crosses the wire once.
func (t *transaction) queueDocuments(q *queries, b *pgx.Batch) {
	var kinds, names []string
	var sequences []int64
	var positions []int32
	for k, p := range t.last {
		c := t.commits[p.commit]
		if c.Changes[p.position].Deleted {
			kinds, names = append(kinds, k.Kind), append(names, k.Name)
		} else {
			sequences, positions = append(sequences, int64(c.Sequence)), append(positions, int32(p.position))
		}
	}
	if len(kinds) > 0 {
		b.Queue(q.remove, kinds, names)
	}
	if len(sequences) > 0 {
		b.Queue(q.put, sequences, positions)
	}
}

// encodeID makes room for NUL, which an identity may have and the type text
// does not hold.
func encodeID(id string) string {
	if !strings.ContainsAny(id, "\\\x00") {
		return id
	}
	return strings.NewReplacer(`\`, `\\`, "\x00", `\0`).Replace(id)
}

func decodeID(id string) string {
	if !strings.Contains(id, `\`) {
		return id
	}
	return strings.NewReplacer(`\\`, `\`, `\0`, "\x00").Replace(id)
}

// conflicting returns the conflicts whose body is not known yet.
func (t *transaction) conflicting() []*store.ConflictError {
	var all []*store.ConflictError
	for _, a := range t.answers {
		if c := store.AsConflict(a.err); c != nil && c.Stands.Version != 0 && c.Stands.Body == nil {
			all = append(all, c)
		}
	}
	return slices.Clip(all)
}
