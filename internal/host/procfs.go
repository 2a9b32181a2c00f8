package host

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// proc is one process as /proc shows it.
type proc struct {
	pid     int
	name    string
	state   byte // 'Z' and 'X' have ended
	parent  int
	session int
	start   uint64 // clock ticks since boot
	exit    int    // wait status of one that has ended; zero also when it may not be seen
}

func (p proc) ended() bool { return p.state == 'Z' || p.state == 'X' }

// readProc looks at one process; it is os.ErrNotExist when there is none.
func readProc(pid int) (proc, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, err
	}
	return parseStat(string(b))
}

// parseStat reads /proc/PID/stat. The name is in parentheses and may hold any
// character, parentheses and spaces included.
func parseStat(s string) (proc, error) {
	open, end := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || end < open {
		return proc{}, fmt.Errorf("cannot read process state %q: no name", s)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(s[:open]))
	if err != nil {
		return proc{}, fmt.Errorf("cannot read process state %q: %w", s, err)
	}
	f := strings.Fields(s[end+1:]) // f[0] is the third field
	if len(f) < 20 {
		return proc{}, fmt.Errorf("cannot read process state %q: %d fields", s, len(f)+2)
	}
	parent, perr := strconv.Atoi(f[1])
	session, serr := strconv.Atoi(f[3])
	start, terr := strconv.ParseUint(f[19], 10, 64)
	if err := errors.Join(perr, serr, terr); err != nil {
		return proc{}, fmt.Errorf("cannot read process state %q: %w", s, err)
	}
	p := proc{pid: pid, name: s[open+1 : end], state: f[0][0], parent: parent, session: session, start: start}
	if len(f) > 49 {
		p.exit, _ = strconv.Atoi(f[49])
	}
	return p, nil
}

// allProcs lists every process that can be seen. Those that end meanwhile are left out.
func allProcs() ([]proc, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var out []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProc(pid); err == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// environOf gives one variable of the environment that a process began with;
// false when it is not there or may not be read.
func environOf(pid int, name string) (string, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return "", false
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(name+"=")); ok {
			return string(v), true
		}
	}
	return "", false
}

// environAll is the whole environment that a process began with, :: name → value.
func environAll(pid int) map[string]string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if k, v, ok := strings.Cut(string(kv), "="); ok {
			out[k] = v
		}
	}
	return out
}

// socketsOf gives the sockets that a process holds open, :: inode → link.
func socketsOf(pid int) map[uint64]string {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	out := map[uint64]string{}
	for _, n := range names {
		link := filepath.Join(dir, n)
		if inode, ok := socketAt(link); ok {
			out[inode] = link
		}
	}
	return out
}

func socketAt(link string) (uint64, bool) {
	to, err := os.Readlink(link)
	if err != nil {
		return 0, false
	}
	text, ok := strings.CutPrefix(to, "socket:[")
	if !ok {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
	return inode, err == nil
}

// machineListeners are all listening TCP sockets of the machine.
func machineListeners() ([]listener, error) {
	var out []listener
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a machine without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("cannot see listening sockets: %w", err)
		}
		l, err := parseListeners(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("cannot see listening sockets in %s: %w", name, err)
		}
		out = append(out, l...)
	}
	return out, nil
}

// States of a TCP connection, as the kernel writes them.
const (
	established = "01"
	closeWait   = "08" // closed from afar, and not from here
)

// connected says that a connection to the address is open; also when it cannot tell.
func connected(to netip.AddrPort) bool { return anyConnection(to, established) }

// halfClosed says that a connection to the address was closed from afar, and is
// not closed at the address; also when it cannot tell.
func halfClosed(to netip.AddrPort) bool { return anyConnection(to, closeWait) }

func anyConnection(to netip.AddrPort, state string) bool {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil || hasConnection(string(b), to, state) {
			return true
		}
	}
	return false
}

func hasConnection(table string, to netip.AddrPort, state string) bool {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != state {
			continue
		}
		if a, ok := parseHexAddr(f[1]); ok && a == to {
			return true
		}
	}
	return false
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot read the machine's boot identity: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
