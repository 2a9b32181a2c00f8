package sqlite

// pruneLimit bounds the commits that one group prunes; the next goes on.
const pruneLimit = 4096

// pruneByAge forgets commits and identities past their retention. It begins
// once the oldest is past it by a sixty-fourth, so that it works in batches.
func (t *transaction) pruneByAge(o Options) error {
	retention := o.Retention.Milliseconds()
	if t.position.oldest == 0 || t.position.oldest >= t.now-retention-retention/64 {
		return nil
	}
	upto, oldest, freed := uint64(0), int64(0), int64(0)
	err := t.eachCommit(0, func(sequence uint64, at, size int64) bool {
		if at >= t.now-retention {
			oldest = at
			return false
		}
		upto, oldest = sequence, at
		if sequence > t.position.floor {
			freed += size
		}
		return true
	})
	if err != nil {
		return err
	}
	t.position.oldest = oldest
	if upto == 0 {
		return nil
	}
	if _, err := t.pruneCommits.ExecContext(t.ctx, upto); err != nil {
		return err
	}
	return t.raiseFloor(upto, freed)
}

// pruneBySize forgets the oldest changes, and no identity, until the rest is
// three quarters of what may be kept.
func (t *transaction) pruneBySize(o Options) error {
	if t.position.logBytes <= o.LogBytes {
		return nil
	}
	upto, freed := t.position.floor, int64(0)
	err := t.eachCommit(t.position.floor, func(sequence uint64, _, size int64) bool {
		upto, freed = sequence, freed+size
		return t.position.logBytes-freed > o.LogBytes/4*3
	})
	if err != nil {
		return err
	}
	return t.raiseFloor(upto, freed)
}

// raiseFloor forgets the changes of the commits up to floor, of so many bytes.
func (t *transaction) raiseFloor(floor uint64, freed int64) error {
	if floor <= t.position.floor {
		return nil
	}
	if _, err := t.pruneChanges.ExecContext(t.ctx, floor); err != nil {
		return err
	}
	t.position.floor = floor
	t.position.logBytes -= freed
	return nil
}

// eachCommit visits the commits after the given one, oldest first, until visit
// returns false.
func (t *transaction) eachCommit(after uint64, visit func(sequence uint64, at, size int64) bool) (err error) {
	rows, err := t.ages.QueryContext(t.ctx, after, pruneLimit)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	for rows.Next() {
		var sequence uint64
		var at, size int64
		if err := rows.Scan(&sequence, &at, &size); err != nil {
			return err
		}
		if !visit(sequence, at, size) {
			return nil
		}
	}
	return rows.Err()
}
