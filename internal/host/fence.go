package host

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/view"
)

// fenceMemory bounds how many earlier incarnations are remembered.
const fenceMemory = 16

// Fence decides which leader may command. It is a value: Judge returns the
// fence to be kept on disk before the command is obeyed.
type Fence struct {
	// Kept is the epoch in force; zero means that none was seen yet.
	Kept view.Epoch `json:"kept"`
	// Earlier holds the highest epoch of each incarnation before this one,
	// newest first, so that none of their sleeping leaders is obeyed either.
	Earlier []view.Epoch `json:"earlier,omitempty"`
}

// Verdict says what accepting an epoch changes.
type Verdict struct {
	Fence   Fence
	Changed bool // the fence must be written before the command is obeyed
	Foreign bool // another incarnation took over: worth a line in the log
}

// Judge accepts e or says why not. An older epoch is refused as
// [fault.Superseded], the same number under another nonce as [fault.Conflict].
func (f Fence) Judge(e view.Epoch) (Verdict, error) {
	if e.Incarnation == "" {
		return Verdict{}, fault.New(fault.Invalid, "", "cannot obey a command without an epoch")
	}
	if err := refuse(e, f.highest(e.Incarnation)); err != nil {
		return Verdict{}, err
	}
	if e == f.Kept {
		return Verdict{Fence: f}, nil
	}
	v := Verdict{Fence: Fence{Kept: e}, Changed: true}
	v.Foreign = !f.Kept.Zero() && f.Kept.Incarnation != e.Incarnation
	for _, old := range append([]view.Epoch{f.Kept}, f.Earlier...) {
		if !old.Zero() && old.Incarnation != e.Incarnation && len(v.Fence.Earlier) < fenceMemory {
			v.Fence.Earlier = append(v.Fence.Earlier, old)
		}
	}
	return v, nil
}

func (f Fence) highest(incarnation string) view.Epoch {
	if f.Kept.Incarnation == incarnation {
		return f.Kept
	}
	if i := slices.IndexFunc(f.Earlier, func(e view.Epoch) bool { return e.Incarnation == incarnation }); i >= 0 {
		return f.Earlier[i]
	}
	return view.Epoch{}
}

func refuse(e, kept view.Epoch) error {
	switch e.Against(kept) {
	case view.Older:
		return fault.New(fault.Superseded, "", "epoch %s is older than %s, which is kept", e, kept)
	case view.Rival:
		return fault.New(fault.Conflict, "", "epoch %s is a rival of %s, which is kept: two leaders of one number", e, kept)
	default:
		return nil
	}
}

// loadFence reads the fence. It is kept twice, each copy with a checksum: a
// flipped byte must neither let a leader in that was deposed nor keep the
// present one out. One damaged copy is put aside and the other believed; of two
// of one incarnation the higher is. Without a whole copy nobody can be judged.
func loadFence(f *folder, log *slog.Logger) (Fence, error) {
	copies, err := readTwice[Fence](f, fileFence, log)
	switch {
	case errors.Is(err, errDamaged):
		return Fence{}, fault.New(fault.NeedsOperator,
			"the epochs that this host obeyed are unknown: remove both files to obey the present leader",
			"cannot trust this host's folder: both %s and %s are damaged: %w", f.path(fileFence), f.path(copyOf(fileFence)), err)
	case err != nil || len(copies) == 0:
		return Fence{}, err
	case len(copies) == 2 && copies[1].Kept.Against(copies[0].Kept) == view.Newer:
		return copies[1], nil
	default:
		return copies[0], nil
	}
}
