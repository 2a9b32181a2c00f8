package view

// Nature says what a new version of a view does; several may be true of it.
// Zero is not known, and taken for Adds.
type Nature uint8

const (
	// Withdraws: traffic is taken from trouble. It goes at once.
	Withdraws Nature = 1 << iota
	// Removes: endpoints leave by plan.
	Removes
	// Adds: endpoints come, or weight rises; and all else.
	Adds
)

// Urgent says that it goes before what may wait.
func (n Nature) Urgent() bool { return n&Withdraws != 0 }
