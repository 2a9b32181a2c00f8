package service

import (
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
)

// StopWait is a stop by plan that waits until callers pick none of its instances.
type StopWait struct {
	Instances []string
	Reason    string // of the stop
	For       routing.Pickers
	Until     time.Time // when it goes on whatever callers say; shown, never decided by
}

// Text says it in words.
func (w StopWait) Text() string {
	what := "the stop of instance " + w.Instances[0]
	if n := len(w.Instances); n > 1 {
		what = fmt.Sprintf("the stop of %d instances", n)
	}
	return fmt.Sprintf("%s (%s) waits for %s; it goes on at %s", what, w.Reason, w.For.Text(), w.Until.UTC().Format(time.TimeOnly))
}
