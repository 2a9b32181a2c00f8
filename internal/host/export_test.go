package host

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Doors for tests that drive a host without a control plane.

func (h *Host) Assign(a service.Assignment) error { return h.assign(a) }
func (h *Host) Stop(s service.Stop) error         { return h.stop(s) }
func (h *Host) Reports() []*pb.InstanceReport     { return h.fullReport().GetInstances() }
func (h *Host) TakeGateways(l *pb.GatewayList) error {
	return h.takeGateways(l)
}

// Obey obeys commands as those of one stream are, and gives what is said, in order.
func (h *Host) Obey(commands ...*pb.HostCommand) []*pb.AttachRequest {
	said := &hearer{}
	s := &session{h: h, ctx: h.ctx, cancel: func() {}, stream: said, lanes: map[string][]*pb.HostCommand{}}
	for _, c := range commands {
		s.serve(laneOf(c), c)
	}
	return said.all
}

type hearer struct {
	controlStream
	all []*pb.AttachRequest
}

func (l *hearer) Send(m *pb.AttachRequest) error {
	l.all = append(l.all, m)
	return nil
}

func (h *Host) Held(instance string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ledger.held(instance)
}

// Reclaim looks once at what a gateway's process left, where that has ended, and
// says whether there is more.
func (h *Host) Reclaim(gateway string) bool {
	h.mu.Lock()
	p := h.processes[gateway]
	h.mu.Unlock()
	return h.Ended(gateway) && h.reclaim(gateway, p)
}

// Ended says that the process of a gateway was held, and has ended.
func (h *Host) Ended(gateway string) bool {
	h.mu.Lock()
	p := h.processes[gateway]
	h.mu.Unlock()
	if p == nil {
		return false
	}
	proc, err := readProc(p.pid)
	return err != nil || proc.ended()
}

// Holds says that a process would be taken for a gateway's.
func (h *Host) Holds(p *pb.GatewayProcess) bool {
	held := h.holdGateway(p)
	if held == nil {
		return false
	}
	held.close()
	return true
}

// PortHeld says that the port of an instance does not rest yet.
func (h *Host) PortHeld(port int) bool {
	held := false
	_ = h.ports.edit(port, func(e *portEntry) bool {
		held = e.Holder != "" && e.Until.IsZero()
		return false
	})
	return held
}

// OnDisk is what a host's folder records of its processes, oldest first.
func OnDisk(dir string) []record {
	all, _, err := readAll[record](&folder{dir: dir}, dirInstances, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	var out []record
	for _, r := range all {
		if r.Pid != 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b record) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Carriers are the processes that carry an instance's identity, besides zombies.
func Carriers(instance string) []int {
	var out []int
	all, _ := allProcs()
	for _, p := range all {
		if id, ok := environOf(p.pid, envInstance); ok && id == instance && !p.ended() {
			out = append(out, p.pid)
		}
	}
	return out
}

// Zombies are ended processes of this one that nobody waited for.
func Zombies(parent int) []int {
	var out []int
	all, _ := allProcs()
	for _, p := range all {
		if p.state == 'Z' && p.parent == parent {
			out = append(out, p.pid)
		}
	}
	return out
}

// Backoffs are the waits before the processes that follow upon those that were
// live for so long, one after the other, by the timing that a host has by default.
func Backoffs(lived ...time.Duration) []time.Duration {
	s, t := newSlot(slotRecord{}), Timing{}.withDefaults()
	var out []time.Duration
	for _, l := range lived {
		s.failedLocked(l, t)
		out = append(out, s.backoff)
	}
	return out
}

// Refuses is why the host takes no more instances, as control is told.
func (h *Host) Refuses() string { return h.room().GetRefuses() }

func (h *Host) Marker() string { return h.folder.marker }

func (h *Host) Running() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running
}

// CarriedMarker is the host's identity in the environment of a process.
func CarriedMarker(pid int) string {
	marker, _ := environOf(pid, envHost)
	return marker
}

// FullDisk has the host's records meet a disk that is full but for what the
// ballast gives up, until the returned function makes room. The host does not run yet.
func (h *Host) FullDisk() (makeRoom func()) {
	var room atomic.Bool
	h.folder.ballast.room = func(f *os.File) (int64, error) {
		if room.Load() {
			return roomBy(f)
		}
		return 0, nil
	}
	h.folder.replace = func(path string, b []byte) error {
		if st, err := os.Stat(h.folder.ballast.path); !room.Load() && err == nil && st.Size() > ballastSize-ballastStep {
			return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
		}
		return replaceFile(path, b)
	}
	return func() { room.Store(true) }
}

// Ballast is the room that the host has taken, in bytes.
func (h *Host) Ballast() int64 {
	st, err := os.Stat(h.folder.ballast.path)
	if err != nil {
		return 0
	}
	return st.Sys().(*syscall.Stat_t).Blocks * 512
}

// Remembers says that a process is known as a descendant of an instance.
func (h *Host) Remembers(instance string, pid int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.instances[instance]
	return in != nil && in.kin[pid] != 0
}

// Ended says that a process is at most a zombie.
func Ended(pid int) bool {
	p, err := readProc(pid)
	return err != nil || p.ended()
}
