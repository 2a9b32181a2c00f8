// Package postgrestest starts PostgreSQL servers for tests: each in a folder of
// its own, reached by a socket in that folder only, and gone when the test
// ends. Where the programs are missing a test fails and says what to install.
// Read [Server] first.
package postgrestest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a server.
const patience = 60 * time.Second

// Server is one server, running or stopped.
type Server struct {
	// URL of its database "postgres", for its superuser.
	URL string
	// Folder holds its socket, and its data in Folder/data.
	Folder string

	binaries   string
	credential *syscall.Credential // nil: as this process
	settings   []string            // NAME=VALUE
	process    *exec.Cmd           // nil while it is stopped
	ended      chan error          // gives how the process ended
	output     *output
}

// Start starts a server with the settings, NAME=VALUE each, and removes it at
// the end of the test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := New(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Errorf("cannot remove the server: %v", err)
		}
	})
	return s
}

// New is Start for a TestMain, which calls Remove itself.
func New(settings ...string) (*Server, error) {
	s, err := prepare(settings)
	if err != nil {
		return nil, err
	}
	if err := s.initialise(); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	if err := s.StartAgain(); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

func prepare(settings []string) (*Server, error) {
	binaries, err := find()
	if err != nil {
		return nil, err
	}
	credential, err := serverUser()
	if err != nil {
		return nil, err
	}
	// Not below the test's own folder: a socket's path ends at 107 bytes, and
	// the server's user must be able to reach it.
	folder, err := os.MkdirTemp("/tmp", "fl-pg-")
	if err != nil {
		return nil, err
	}
	if credential != nil {
		if err := os.Chown(folder, int(credential.Uid), int(credential.Gid)); err != nil {
			return nil, err
		}
	}
	return &Server{
		URL:      fmt.Sprintf("postgres://postgres@/postgres?host=%s&port=5432&sslmode=disable", folder),
		Folder:   folder,
		binaries: binaries, credential: credential, settings: settings,
	}, nil
}

// find returns the folder of the server's programs.
func find() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && isFile(filepath.Join(filepath.Dir(path), "postgres")) {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("initdb and postgres are missing: install PostgreSQL (Debian: apt-get install postgresql)")
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) })), nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

func major(path string) int {
	n, err := strconv.Atoi(strings.Split(path, "/")[4])
	if err != nil {
		return 0
	}
	return n
}

// serverUser is "postgres" where this process is root, which a server refuses.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("the user postgres is missing: install PostgreSQL (Debian: apt-get install postgresql): %w", err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// Command returns the command of one of PostgreSQL's programs, or of any
// other, as the server's user.
func (s *Server) Command(program string, args ...string) *exec.Cmd {
	if path := filepath.Join(s.binaries, program); isFile(path) {
		program = path
	}
	c := exec.Command(program, args...)
	c.Dir = s.Folder
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential, Pdeathsig: syscall.SIGINT}
	return c
}

func (s *Server) data() string { return filepath.Join(s.Folder, "data") }

func (s *Server) initialise() error {
	out, err := s.Command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot initialise a server: %w\n%s", err, out)
	}
	return nil
}

// StartAgain starts the stopped server and waits until it takes connections.
func (s *Server) StartAgain() error {
	if s.process != nil {
		return errors.New("the server runs")
	}
	args := []string{"-D", s.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + s.Folder, "-c", "shared_buffers=16MB"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	c := s.Command("postgres", args...)
	c.SysProcAttr.Setpgid = true // a terminal's signals are not for it
	s.output = &output{ready: make(chan struct{})}
	c.Stdout, c.Stderr = s.output, s.output
	if err := c.Start(); err != nil {
		return fmt.Errorf("cannot start a server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	s.process, s.ended = c, ended
	select {
	case <-s.output.ready:
		return nil
	case err := <-ended:
		s.process = nil
		return fmt.Errorf("the server ended: %w\n%s", err, s.output)
	case <-time.After(patience):
		return fmt.Errorf("the server is not ready after %s\n%s", patience, s.output)
	}
}

// Stop stops the server: it ends its sessions and writes what it holds.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Crash stops the server at once, as a crash would: it recovers at the next start.
func (s *Server) Crash() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(signal os.Signal) error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-s.ended: // its status tells nothing: a crash is one that was asked for
		s.process = nil
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the server has not ended after %s\n%s", patience, s.output)
	}
}

// Standby starts a standby of the running server, which ends with the test.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	standby, err := prepare(s.settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Remove(); err != nil {
			t.Errorf("cannot remove the standby: %v", err)
		}
	})
	out, err := s.Command("pg_basebackup", "-h", s.Folder, "-U", "postgres", "-D", standby.data(), "-R", "-c", "fast", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("cannot copy the server: %v\n%s", err, out)
	}
	if err := standby.StartAgain(); err != nil {
		t.Fatal(err)
	}
	return standby
}

// Signal sends a signal to all of the server's processes, e.g. SIGSTOP.
func (s *Server) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	pids, err := s.processes()
	if err != nil {
		t.Fatalf("cannot find the server's processes: %v", err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("cannot signal the server: %v", err)
		}
	}
}

// processes returns the server's process and its children, each of which is
// in a process group of its own.
func (s *Server) processes() ([]int, error) {
	parent := s.process.Process.Pid
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	pids := []int{parent}
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(b, []byte(") "))
		var state string
		var ppid int
		if _, err := fmt.Sscan(string(rest), &state, &ppid); err != nil || ppid != parent {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(name, "/")[2])
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Restart stops the server and starts it again.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.StartAgain()
}

// Set replaces the settings that the next start uses.
func (s *Server) Set(settings ...string) { s.settings = settings }

// Output returns the end of what the server has said.
func (s *Server) Output() string { return s.output.String() }

// Remove stops the server and removes its folder.
func (s *Server) Remove() error {
	return errors.Join(s.end(syscall.SIGQUIT), os.RemoveAll(s.Folder))
}

// output keeps the end of what a server says, and notes when it is ready.
type output struct {
	mu    sync.Mutex
	text  []byte
	once  sync.Once
	ready chan struct{}
}

const outputBytes = 64 << 10

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	if bytes.Contains(o.text, []byte("system is ready to accept")) {
		o.once.Do(func() { close(o.ready) })
	}
	if n := len(o.text) - outputBytes; n > 0 {
		o.text = slices.Delete(o.text, 0, n)
	}
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}
