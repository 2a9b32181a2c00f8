package host

import (
	"fmt"
	"os"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

// leastRoom on the disk of its folder, in bytes, with which a host takes more instances.
const leastRoom = 16 << 20

// room is what the host can take, as it is told to control.
func (h *Host) room() *pb.HostRoom {
	if err := h.Health(); err != nil {
		return &pb.HostRoom{Refuses: err.Error()}
	}
	dir, err := os.Open(h.folder.dir)
	if err != nil {
		return &pb.HostRoom{Refuses: fmt.Sprintf("its folder cannot be opened: %v", err)}
	}
	defer dir.Close()
	free, err := h.folder.ballast.room(dir)
	switch {
	case err != nil:
		return &pb.HostRoom{} // nothing is known, and nothing is refused for that
	case free < leastRoom:
		return &pb.HostRoom{FreeBytes: max(free, 1), Refuses: fmt.Sprintf("its disk is full: %d KiB are left of the %d that it keeps free (%s)", free>>10, leastRoom>>10, h.folder.dir)}
	}
	return &pb.HostRoom{FreeBytes: free}
}
