package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// portEntry says who has a port. The file of a port is never removed, and is
// written only under its own lock, so that two installations cannot both take it.
type portEntry struct {
	Holder   string `json:"holder"`   // folder of the host
	Instance string `json:"instance"` // that has it, or had it last
	// Until is when a port that was given up may be given away again; zero
	// means that it is held.
	Until time.Time `json:"until"`
}

// ports is the machine's registry: one file per port in one folder that all
// installations and users share, sticky like /tmp itself. Each user writes only
// entries of its own and passes over those of others.
type ports struct {
	dir         string
	holder      string
	first, last int
	now         func() time.Time
	rest        time.Duration
}

func openPorts(c Config) (*ports, error) {
	p := &ports{dir: c.PortDir, holder: c.Dir, first: c.PortFirst, last: c.PortLast, now: c.Now, rest: c.Timing.PortRest}
	err := os.Mkdir(p.dir, 0o700)
	switch {
	case err == nil:
		// Mkdir obeys the umask, Chmod does not.
		if err := os.Chmod(p.dir, 0o777|os.ModeSticky); err != nil {
			return nil, fmt.Errorf("cannot open the machine's port registry: %w", err)
		}
	case !errors.Is(err, os.ErrExist):
		return nil, fmt.Errorf("cannot make the machine's port registry: %w", err)
	}
	if st, err := os.Lstat(p.dir); err != nil || !st.IsDir() {
		return nil, fault.New(fault.Invalid, "", "cannot use %s as the machine's port registry: it is not a folder", p.dir)
	}
	return p, nil
}

// claim takes a free port for an instance: one that no installation has, that
// has rested, and that nothing is bound to.
func (p *ports) claim(instance string) (int, error) {
	n := p.last - p.first + 1
	start := rand.IntN(n)
	for i := range n {
		port := p.first + (start+i)%n
		if taken, err := p.tryClaim(port, instance); err != nil || taken {
			return port, err
		}
	}
	return 0, fault.New(fault.Exhausted, "", "cannot give instance %s a port: all of %d to %d are held or rest", instance, p.first, p.last)
}

func (p *ports) tryClaim(port int, instance string) (bool, error) {
	claimed := false
	err := p.edit(port, func(e *portEntry) bool {
		if !p.isFree(*e) || !canBind(port) {
			return false
		}
		*e, claimed = portEntry{Holder: p.holder, Instance: instance}, true
		return true
	})
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.ELOOP) {
		return false, nil // another user's, or being looked at by another host
	}
	return claimed, err
}

func (p *ports) isFree(e portEntry) bool {
	switch {
	case e.Holder == "":
		return true
	case !e.Until.IsZero():
		return !p.now().Before(e.Until)
	default:
		_, err := os.Stat(e.Holder)
		return errors.Is(err, os.ErrNotExist) // its host's folder was deleted
	}
}

// canBind says that nothing on the machine listens on the port, at any address.
func canBind(port int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// release begins the port's rest, reckoned from ended. It changes nothing when
// the instance no longer has the port.
func (p *ports) release(port int, instance string, ended time.Time) error {
	err := p.edit(port, func(e *portEntry) bool {
		if e.Holder != p.holder || e.Instance != instance || !e.Until.IsZero() {
			return false
		}
		e.Until = ended.Add(p.rest)
		return true
	})
	if err != nil {
		return fmt.Errorf("cannot give up port %d: %w", port, err)
	}
	return nil
}

// keepOnly gives up what this host's folder has in the registry for instances
// that it does not know: they were being started when it died.
func (p *ports) keepOnly(known map[string]bool) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return fmt.Errorf("cannot read the machine's port registry: %w", err)
	}
	for _, d := range entries {
		port, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join(p.dir, d.Name()))
		var e portEntry
		if err != nil || json.Unmarshal(b, &e) != nil || e.Holder != p.holder || known[e.Instance] {
			continue
		}
		if err := p.release(port, e.Instance, p.now()); err != nil {
			return err
		}
	}
	return nil
}

// edit changes a port's entry under its lock; change says whether to write.
func (p *ports) edit(port int, change func(*portEntry) bool) error {
	name := filepath.Join(p.dir, strconv.Itoa(port))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	var e portEntry
	_ = json.Unmarshal(b, &e) // an entry torn by a crash is as good as none: the bind check stands
	if !change(&e) {
		return nil
	}
	if b, err = json.Marshal(e); err != nil {
		return err
	}
	// In this order an entry is not lost to a full disk: it is overwritten in place.
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(b)))
}
