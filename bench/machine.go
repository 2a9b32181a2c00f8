package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// machine is what figures depend on. It names no host.
type machine struct {
	cores           int
	kernel, version string
}

func thisMachine() machine {
	m := machine{cores: runtime.NumCPU(), version: runtime.Version()}
	var u syscall.Utsname
	if err := syscall.Uname(&u); err == nil {
		var b []byte
		for _, c := range u.Release {
			if c == 0 {
				break
			}
			b = append(b, byte(c))
		}
		m.kernel, _, _ = strings.Cut(string(b), "-")
	}
	return m
}

func (m machine) String() string {
	return fmt.Sprintf("%d cores, Linux %s, %s", m.cores, m.kernel, m.version)
}

// commit that the tree stands at, with a mark where files differ from it.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty=, changed").Output()
	if err != nil {
		return "an unknown commit"
	}
	return "commit " + strings.TrimSpace(string(out))
}

// ticks are hundredths of a second, the kernel's unit of CPU time.
const ticksPerSecond = 100

// cpuOf is the CPU time that a process and its threads have used, in ticks.
func cpuOf(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The command's name, in parentheses, may hold anything.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	return user + system, err
}

// busy is the CPU time that all programs of the machine have used, in ticks.
func busy() (int64, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	var sum int64
	for i, f := range strings.Fields(first)[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		if i != 3 && i != 4 { // idle, waiting for a disk
			sum += n
		}
	}
	return sum, nil
}

// memory reads one field of a process's status, in KiB.
func memory(pid int, field string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, field)
}
