package host

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
)

// mint makes an identity that is never made again: an instant plus 80 random
// bits. A nil clock means time.Now.
func mint(now func() time.Time) string {
	if now == nil {
		now = time.Now
	}
	return ulid.MustNew(ulid.Timestamp(now()), rand.Reader).String()
}

// noise is without end, and no file system makes it smaller.
func noise() io.Reader { return rand.Reader }
