package host

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Names of the variables that find a process again.
const (
	envInstance = "FAIRLEAD_INSTANCE"
	envHost     = "FAIRLEAD_HOST"
	envService  = "FAIRLEAD_SERVICE"
	envRevision = "FAIRLEAD_REVISION"
	envMinted   = "FAIRLEAD_MINTED"
	envSlot     = "FAIRLEAD_SLOT"
	envRound    = "FAIRLEAD_ROUND"
	envPort     = "PORT"
	envSelfURL  = "FAIRLEAD_SELF_URL"   // where the instance speaks for itself
	envSelfKey  = "FAIRLEAD_SELF_TOKEN" // by which it is known there
)

// handle holds one process by pidfd, so that its number cannot come to mean
// another. Wait ends early when the handle is closed.
type handle struct {
	pid   int
	start uint64
	file  *os.File // the pidfd
}

// hold takes hold of a process. A start time of zero means whichever has the
// number now; otherwise a process that began at another time is os.ErrNotExist.
func hold(pid int, start uint64) (*handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot hold process %d: %w", pid, err)
	}
	h := &handle{pid: pid, start: start, file: os.NewFile(uintptr(fd), "pidfd")}
	p, err := readProc(pid) // after the pidfd: what it shows is what is held, or that has ended
	if err == nil && (start != 0 && p.start != start || p.ended() && start != 0) {
		err = os.ErrNotExist
	}
	if err != nil {
		h.close()
		return nil, fmt.Errorf("cannot hold process %d: %w", pid, err)
	}
	h.start = p.start
	return h, nil
}

// wait returns nil when the process has ended, and an error when the handle was closed.
func (h *handle) wait() error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool { return readable(int(fd)) })
}

func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

// signal sends sig; a process that has ended is no error.
func (h *handle) signal(sig unix.Signal) error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	if err := conn.Control(func(fd uintptr) { serr = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return err
	}
	if serr != nil && !errors.Is(serr, unix.ESRCH) {
		return fmt.Errorf("cannot send %v to process %d: %w", sig, h.pid, serr)
	}
	return nil
}

func (h *handle) close() { _ = h.file.Close() } // a pidfd has nothing to flush

// killProc kills p if it is still the process that was seen, and waits for its end.
func killProc(p proc, deadline time.Time) {
	h, err := hold(p.pid, p.start)
	if err != nil {
		return // ended meanwhile
	}
	defer h.close()
	if h.signal(unix.SIGKILL) != nil {
		return
	}
	_ = h.file.SetReadDeadline(deadline) // a wait cut short is seen by the next look
	_ = h.wait()
}
