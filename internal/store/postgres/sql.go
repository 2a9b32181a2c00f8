package postgres

import (
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// schemaVersion is kept in head.
const schemaVersion = 1

// schemaTables makes the tables. Names sort by their bytes, whatever the
// database's own order. A body has the type json, which keeps it byte for byte.
const schemaTables = `
CREATE TABLE {s}.head (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	program text NOT NULL,            -- whose schema this is
	schema_version integer NOT NULL,
	incarnation text NOT NULL,
	sequence bigint NOT NULL,         -- of the newest commit
	floor bigint NOT NULL,            -- changes of commits up to this one are no longer kept
	log_rows bigint NOT NULL,         -- in changes
	recoveries bigint NOT NULL        -- times that a commit whose answer was lost had to be looked up
);
CREATE SEQUENCE {s}.numbers AS bigint CACHE 1;
CREATE TABLE {s}.documents (
	kind text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
	version bigint NOT NULL,          -- sequence of the commit that wrote it
	body json NOT NULL,
	PRIMARY KEY (kind, name)
);
CREATE TABLE {s}.commits (
	sequence bigint PRIMARY KEY,
	apply_id text COLLATE "C" NOT NULL UNIQUE,
	digest bytea NOT NULL,            -- of what the apply asked for
	at timestamptz NOT NULL
);
CREATE TABLE {s}.changes (
	sequence bigint NOT NULL, position integer NOT NULL,
	kind text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
	body json,                        -- NULL where the document was deleted
	PRIMARY KEY (sequence, position)
);
`

// queries are the statements, with the schema filled in.
type queries struct {
	schema                                      string
	tables, firstHead, head                     string
	get, list, listAll, bounds, log             string
	numbers, earlier, stands, bodies            string
	commits, changes, remove, put, advance      string
	expired, excess, pruneChanges, pruneCommits string
	raise, recovered                            string

	channel              string // that wakes the followers
	lockKey, pruneKey    int64  // of the advisory locks for commits and for pruning
	schemaLockKey        int64
	begin, lock, tryLock string
}

func queriesFor(schema string) queries {
	fill := func(q string) string {
		return strings.ReplaceAll(q, "{s}", pgx.Identifier{schema}.Sanitize())
	}
	q := queries{
		schema:        schema,
		channel:       "fairlead_" + schema,
		lockKey:       lockKey(schema, "commit"),
		pruneKey:      lockKey(schema, "prune"),
		schemaLockKey: lockKey(schema, "schema"),
		begin:         `BEGIN ISOLATION LEVEL READ COMMITTED`,
		lock:          `SELECT pg_advisory_xact_lock($1)`,
		tryLock:       `SELECT pg_try_advisory_xact_lock($1)`,
	}
	for field, text := range q.texts() {
		*field = fill(text)
	}
	return q
}

// texts :: field → statement
func (q *queries) texts() map[*string]string {
	return map[*string]string{
		&q.tables:    schemaTables,
		&q.firstHead: `INSERT INTO {s}.head VALUES (true, 'fairlead', $1, $2, 0, 0, 0, 0)`,
		&q.head:      `SELECT schema_version, incarnation, sequence FROM {s}.head`,

		// Each read is one statement, so that it sees one state.
		&q.get: `SELECT version, body FROM {s}.documents WHERE kind = $1 AND name = $2`,
		&q.list: `SELECT h.sequence, d.kind, d.name, d.version, d.body
			FROM {s}.head h LEFT JOIN {s}.documents d ON d.kind = $1 ORDER BY d.kind, d.name`,
		&q.listAll: `SELECT h.sequence, d.kind, d.name, d.version, d.body
			FROM {s}.head h LEFT JOIN {s}.documents d ON true ORDER BY d.kind, d.name`,
		&q.bounds: `SELECT sequence, floor FROM {s}.head`,
		&q.log: `SELECT h.sequence, h.floor, c.sequence, c.apply_id, x.kind, x.name, x.body
			FROM {s}.head h
			LEFT JOIN (SELECT sequence, apply_id FROM {s}.commits WHERE sequence > $1 ORDER BY sequence LIMIT $2) c ON true
			LEFT JOIN {s}.changes x ON x.sequence = c.sequence
			ORDER BY c.sequence, x.position`,

		// A server that takes no writes gives no numbers, and no error either.
		&q.numbers: `SELECT nextval('{s}.numbers'::regclass) FROM generate_series(1, $1::integer)
			WHERE current_setting('transaction_read_only') = 'off'`,
		&q.earlier: `SELECT apply_id, sequence, digest FROM {s}.commits WHERE apply_id = ANY($1::text[])`,
		&q.stands: `SELECT d.kind, d.name, d.version FROM unnest($1::text[], $2::text[]) AS k(kind, name)
			JOIN {s}.documents d ON d.kind = k.kind AND d.name = k.name`,
		&q.bodies: `SELECT d.kind, d.name, d.body FROM unnest($1::text[], $2::text[]) AS k(kind, name)
			JOIN {s}.documents d ON d.kind = k.kind AND d.name = k.name`,
		&q.commits: `INSERT INTO {s}.commits (sequence, apply_id, digest, at)
			SELECT n.sequence, n.apply_id, n.digest, coalesce($4::timestamptz, clock_timestamp())
			FROM unnest($1::bigint[], $2::text[], $3::bytea[]) AS n(sequence, apply_id, digest)`,
		&q.changes: `INSERT INTO {s}.changes (sequence, position, kind, name, body)
			SELECT n.sequence, n.position, n.kind, n.name, n.body::json
			FROM unnest($1::bigint[], $2::integer[], $3::text[], $4::text[], $5::text[]) AS n(sequence, position, kind, name, body)`,
		&q.remove: `DELETE FROM {s}.documents d USING unnest($1::text[], $2::text[]) AS n(kind, name)
			WHERE d.kind = n.kind AND d.name = n.name`,
		&q.put: `INSERT INTO {s}.documents (kind, name, version, body)
			SELECT x.kind, x.name, x.sequence, x.body
			FROM unnest($1::bigint[], $2::integer[]) AS n(sequence, position)
			JOIN {s}.changes x ON x.sequence = n.sequence AND x.position = n.position
			ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, body = excluded.body`,
		&q.advance: `UPDATE {s}.head SET sequence = greatest(sequence, $1), log_rows = log_rows + $2`,

		// The oldest commits up to the first that is not yet past its
		// retention, at most so many of them.
		&q.expired: `WITH oldest AS (SELECT sequence, at < coalesce($1::timestamptz, clock_timestamp()) - $2::interval AS past
				FROM {s}.commits ORDER BY sequence LIMIT $3)
			SELECT coalesce(max(sequence) FILTER (WHERE past AND sequence < coalesce(
				(SELECT min(sequence) FROM oldest WHERE NOT past), 9223372036854775807)), 0), count(*) FILTER (WHERE past) FROM oldest`,
		&q.excess: `SELECT coalesce((SELECT x.sequence FROM {s}.head h, LATERAL (SELECT sequence FROM {s}.changes
				ORDER BY sequence, position OFFSET least(h.log_rows - $1, $2) - 1 LIMIT 1) x WHERE h.log_rows > $1), 0)`,
		&q.pruneChanges: `DELETE FROM {s}.changes WHERE sequence <= $1`,
		&q.pruneCommits: `DELETE FROM {s}.commits WHERE sequence <= $1`,
		&q.raise:        `UPDATE {s}.head SET floor = greatest(floor, $1), log_rows = log_rows - $2`,
		&q.recovered:    `UPDATE {s}.head SET recoveries = recoveries + 1`,
	}
}

// lockKey is the number of one of the schema's advisory locks.
func lockKey(schema, purpose string) int64 {
	h := fnv.New64a()
	h.Write([]byte("fairlead/" + schema + "/" + purpose)) // a hash never returns an error
	return int64(h.Sum64())
}
