package host

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/service"
)

// instance is one process, from before its start until it is forgotten:
//
//	starting ⇄ live → draining → exited
//	starting or live → exited           by itself
//
// One that was live and listens no longer is starting again, and draining once
// it has been deaf for too long.
//
// Fields below mu of the host are read and written under it; the others do not
// change once the instance is known.
type instance struct {
	rec     record
	addr    netip.AddrPort
	journal *journal
	adopted bool
	leader  *handle     // nil when it never started
	child   *os.Process // nil when adopted: it cannot be waited for
	poke    chan struct{}
	gone    chan struct{} // closed when the process and its whole session have ended
	halted  int           // looks in a row at which its process was stopped; the looker's own

	// Under the host's mu:
	state  service.InstanceState
	status string // how it ended
	before string // how the process before it in its slot ended; empty when there was none
	// linesBefore are the last ones that it said.
	linesBefore []string
	detail      string
	lastLines   []string
	word        service.Word   // what it says about itself
	liveSince   time.Time      // zero means not live
	lived       time.Duration  // how long it was live the last time
	heard       time.Time      // when it was last seen to listen at its address
	deaf        bool           // it no longer listens, and is to be replaced
	kin         map[int]uint64 // :: pid → start of its descendants; replaced, never changed
	held        *ownSocket
	wasLive     bool
	retiring    bool
	retired     uint64          // in which order it was withdrawn; 0 is not yet
	withdrawn   map[string]bool // :: gateway that acknowledged the withdrawal
	changed     chan struct{}   // closed at each change that a retirement waits for
}

func (h *Host) newInstance(r record) *instance {
	return &instance{
		rec: r, addr: netip.AddrPortFrom(h.cfg.Advertise, uint16(r.Port)),
		journal: &journal{path: h.folder.path(dirLogs, r.ID+".log"), max: h.cfg.LogMax},
		poke:    make(chan struct{}, 1), gone: make(chan struct{}),
		state: service.InstanceStarting, withdrawn: map[string]bool{}, changed: make(chan struct{}),
	}
}

func (in *instance) slot() string { return in.rec.Assignment.Slot }

func (in *instance) runs() bool { return in.state != service.InstanceExited }

// stirLocked wakes a retirement that waits.
func (in *instance) stirLocked() {
	close(in.changed)
	in.changed = make(chan struct{})
}

// lookNow has the instance looked at without waiting for the next turn.
func (in *instance) lookNow() {
	select {
	case in.poke <- struct{}{}:
	default: // it is about to be looked at anyway
	}
}

// tend starts what an instance needs as long as it runs: one goroutine waits
// for its end, one looks whether it is live.
func (h *Host) tend(in *instance) {
	h.life.Go(func() { h.awaitEnd(in) })
	h.life.Go(func() { h.look(in) })
}

// awaitEnd waits for the process to end, ends what is left of its session, and
// says how it ended. When the host closes first, the process is left alone.
func (h *Host) awaitEnd(in *instance) {
	letGo := context.AfterFunc(h.ctx, in.leader.close)
	err := in.leader.wait()
	if !letGo() || err != nil {
		return
	}
	// The leader is not reaped before its session has ended, so that its number
	// cannot come to mean another session meanwhile.
	left := h.wentOn(in)
	if err := h.familyOf(in).killAll(h.cfg.Timing.Kill); err != nil {
		h.log.Error("processes of an ended instance are left", "instance", in.rec.ID, "error", err)
	}
	status := "unknown (adopted)"
	if in.child != nil {
		status = exitStatus(in.child)
	}
	in.leader.close()
	h.exited(in, status, left)
}

// exitStatus reaps a child that has ended.
func exitStatus(p *os.Process) string {
	st, err := p.Wait()
	if err != nil {
		return fmt.Sprintf("unknown (%v)", err)
	}
	return st.String()
}

// exited notes the end, tells gateways and leader, and has the slot go on.
func (h *Host) exited(in *instance, status, left string) {
	lines := in.journal.lastLines(20)
	h.mu.Lock()
	defer h.mu.Unlock()
	in.state, in.status, in.lastLines = service.InstanceExited, status, lines
	switch {
	case left != "":
		in.detail = left
	case !in.deaf: // the reason of a deaf one's end is why it was ended
		in.detail = status
	}
	lived := in.liveFor()
	in.liveSince = time.Time{}
	h.endLocked(in)
	close(in.gone)
	in.stirLocked()
	h.touchLocked(in)
	if s := h.slots[in.slot()]; s != nil {
		s.endedLocked(in, lived, h.cfg.Timing)
	}
	h.log.Info("instance ended", "instance", in.rec.ID, "slot", in.slot(), "status", status, "live_for", lived)
}

// liveFor is without a break, until now.
func (in *instance) liveFor() time.Duration {
	if in.liveSince.IsZero() {
		return 0
	}
	return time.Since(in.liveSince)
}

// signalLeader sends sig to the instance's first process.
func (in *instance) signalLeader(sig unix.Signal) error { return in.leader.signal(sig) }
