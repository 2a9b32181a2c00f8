package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// lockFolder makes the folder and locks it for as long as the file is open.
func lockFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the gateway's folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "gateway.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock of the gateway's folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = fmt.Errorf("cannot lock the gateway's folder %s: another gateway uses it: %w", dir, err)
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// listenPoll opens the poll listener. A picked port is kept in the folder; if
// another has taken it meanwhile, a new one is picked, and hosts learn of it
// from control.
func listenPoll(addr, dir string, log *slog.Logger) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for hosts: %w", err)
	}
	if port != "0" && port != "" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("cannot listen for hosts: %w", err)
		}
		return l, nil
	}
	file := filepath.Join(dir, "poll.port")
	kept, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the kept port: %w", err)
	}
	if err == nil {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strings.TrimSpace(string(kept))))
		if err == nil {
			return l, nil
		}
		log.Warn("the kept poll port cannot be had; another is picked", "error", err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for hosts: %w", err)
	}
	if err := keepPort(file, l.Addr()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func keepPort(file string, a net.Addr) error {
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return fmt.Errorf("cannot keep the poll port: %w", err)
	}
	tmp := file + ".new"
	if err := os.WriteFile(tmp, []byte(port+"\n"), 0o600); err != nil {
		return fmt.Errorf("cannot keep the poll port: %w", err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return fmt.Errorf("cannot keep the poll port: %w", err)
	}
	return nil
}

// upgrades are the callers' connections that were taken over from the server,
// which therefore does not end them.
type upgrades struct {
	mu    sync.Mutex
	open  map[net.Conn]struct{}
	over  bool
	empty chan struct{} // made by end; closed when none is left
}

// add refuses once the end has come.
func (u *upgrades) add(c net.Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return false
	}
	if u.open == nil {
		u.open = map[net.Conn]struct{}{}
	}
	u.open[c] = struct{}{}
	return true
}

func (u *upgrades) remove(c net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, c)
	if u.over && len(u.open) == 0 {
		close(u.empty)
	}
}

// end waits for those that are open, and closes what is left when ctx ends.
func (u *upgrades) end(ctx context.Context) {
	u.mu.Lock()
	u.over, u.empty = true, make(chan struct{})
	n := len(u.open)
	u.mu.Unlock()
	if n == 0 {
		return
	}
	select {
	case <-u.empty:
	case <-ctx.Done():
		u.mu.Lock()
		for c := range u.open {
			c.Close()
		}
		u.mu.Unlock()
	}
}
