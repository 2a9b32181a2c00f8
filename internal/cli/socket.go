package cli

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ShortSocketPath returns a path to a UNIX socket that the kernel takes, which
// ends at 107 bytes: a longer one is reached through its folder's descriptor.
// The path is good until release.
func ShortSocketPath(path string) (short string, release func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("cannot open the folder of socket %s: %w", path, err)
	}
	release = func() { _ = unix.Close(fd) } // a descriptor that only names a folder
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)), release, nil
}
