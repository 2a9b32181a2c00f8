package resolver

import (
	"context"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

const (
	// keepRetry is how long a disk that took nothing is left alone.
	keepRetry = time.Second
	// epochWait bounds how long a new epoch is waited for on its way to disk,
	// before a table under it is obeyed.
	epochWait = time.Second
)

// keepLoop writes what is held whenever it is not what is on disk. What came
// while it wrote is written at once, together. It tries once more at the end.
func (h *Holder) keepLoop(ctx context.Context) {
	var retry <-chan time.Time
	for {
		select {
		case <-h.dirty:
		case <-retry:
		case <-ctx.Done():
			h.keep()
			return
		}
		retry = nil
		if !h.keep() {
			retry = time.After(keepRetry)
		}
	}
}

// keep writes what is held, where it is not kept yet, and says whether it is.
func (h *Holder) keep() bool {
	h.mu.Lock()
	held, kept := h.held, h.kept
	h.mu.Unlock()
	if held == kept {
		return true
	}
	content, err := tableFile.encode(held.Snapshot())
	if err == nil {
		err = tableFile.replace(h.cfg.Path, content)
	}
	h.keptNow(held, err)
	return err == nil
}

func (h *Holder) keptNow(held *view.Held, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.kept = held
		h.writes++
	}
	if err != nil && (h.keepErr == nil || h.keepErr.Error() != err.Error()) {
		h.noteLocked(err.Error())
	}
	h.keepErr = err
	close(h.attempted)
	h.attempted = make(chan struct{})
	h.changedLocked()
	signal(h.ack)
}

// awaitKept waits until held or something later is on disk, or the disk has
// refused, or for epochWait: a disk that hangs must not keep tables out.
func (h *Holder) awaitKept(ctx context.Context, held *view.Held) {
	signal(h.dirty)
	timer := time.NewTimer(epochWait)
	defer timer.Stop()
	for {
		h.mu.Lock()
		done, attempted := h.kept == held || h.keepErr != nil, h.attempted
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-attempted:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
