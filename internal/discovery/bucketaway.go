package discovery

import (
	"fmt"
	"time"
)

// awayFor is how long a bucket may be away before it is an alarm.
const awayFor = time.Minute

// bucketAway is since when the bucket has taken nothing. It is guarded by the
// term's mu.
type bucketAway struct {
	from time.Time // zero while it takes what it is given
	why  string
}

func (b *bucketAway) since() time.Duration {
	if b.from.IsZero() {
		return 0
	}
	return time.Since(b.from)
}

// bucketAnswers notes whether the bucket took evidence or history.
func (t *term) bucketAnswers(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.away = bucketAway{}
	case t.away.from.IsZero():
		t.away = bucketAway{time.Now(), err.Error()}
	default:
		t.away.why = err.Error()
	}
}

// bucketAlarm says that the bucket stays away, what that costs, and what to do.
func (t *term) bucketAlarm() string {
	d := t.away.since()
	if d < awayFor {
		return ""
	}
	return fmt.Sprintf("the bucket has taken nothing for %s: %d s of evidence wait for it, %d are given up, and %d transitions stay in the store; nothing else is lost: see that its folder can be written and has room (%s)",
		d.Round(time.Second), t.keeper.Pending(), t.keeper.Dropped(), t.records.inStore(), t.away.why)
}
