package eligibility

// Flapping: how often evidence may move an instance in and out of rotation.
const (
	flapsKept     = 5              // the change of this number within FlapWindow is one too many
	quarantineMin = int64(60)      // seconds; doubling
	quarantineMax = int64(30 * 60) // seconds
	quiet         = 60 * 60        // seconds without quarantine, after which the next is short again
)

// FlapWindow is the time within which changes are counted, in seconds.
const FlapWindow = 10 * 60

// Quarantine holds an instance out that came and went too often.
type Quarantine struct {
	Until int64 // the tick at which it ends; 0 is never was one
	Level uint8 // how often it was doubled
}

// flap notes a change by evidence, and reports whether it is one too many.
func (s *State) flap(now int64) bool {
	copy(s.Flaps[:], s.Flaps[1:])
	s.Flaps[flapsKept-1] = now
	return s.Flaps[0] != 0 && now-s.Flaps[0] < FlapWindow
}

// FlapsWithin is how many changes by evidence there were in the last ten
// minutes, as far as they are kept.
func (s *State) FlapsWithin(now int64) (n int) {
	for _, t := range s.Flaps {
		if t != 0 && now-t < FlapWindow {
			n++
		}
	}
	return n
}

func (s *State) quarantined(now int64) bool { return now < s.Quarantine.Until }

// quarantine begins one, twice as long as the one before unless that is long
// ago. The count starts anew, so that it is five changes again and not one.
func (s *State) quarantine(now int64) {
	q := &s.Quarantine
	switch {
	case q.Until == 0 || now-q.Until >= quiet:
		q.Level = 0
	case quarantineMin<<q.Level < quarantineMax:
		q.Level++
	}
	q.Until = now + min(quarantineMin<<q.Level, quarantineMax)
	s.Flaps = [flapsKept]int64{}
}
