package host

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// launch is all that is needed to make a process.
type launch struct {
	path string   // of the file to run
	argv []string // argv[0] as it was declared
	env  map[string]string
	dir  string
	user *account
	out  *os.File // both outputs; the process itself holds it open
}

// environment of an instance: the clean base, what was declared, and what the
// host says, which no declaration replaces.
func (h *Host) environment(r record, home, tmp string) map[string]string {
	env := map[string]string{"PATH": h.cfg.Path, "HOME": home, "TMPDIR": tmp, "LANG": "C.UTF-8"}
	if lang := os.Getenv("LANG"); lang != "" {
		env["LANG"] = lang
	}
	a := r.Assignment
	maps.Copy(env, a.Template.Env)
	maps.Copy(env, map[string]string{
		envPort:     strconv.Itoa(r.Port),
		envService:  a.Service,
		envRevision: a.Revision,
		envMinted:   a.Minted,
		envSlot:     a.Slot,
		envRound:    strconv.Itoa(int(a.Round)),
		envInstance: r.ID,
		envHost:     h.folder.marker,
	})
	env[envZone] = h.cfg.Zone
	if !h.lent.none() {
		env[envIdentity] = r.Folder + "/" + dirIdentity
	}
	if plane := h.plane(r.ID); len(plane) > 0 {
		env[envPlane] = strings.Join(plane, ",")
	}
	if url := h.words.url(); url != "" {
		env[envSelfURL], env[envSelfKey] = url, h.words.token(r.ID)
	}
	return env
}

func environ(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// findCommand resolves a command as the instance would: with a slash from its
// folder, otherwise in its PATH. The error tells where it looked.
func findCommand(name, dir, path string) (string, error) {
	if name == "" {
		return "", fault.New(fault.Invalid, "", "cannot run an empty command")
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := executable(name); err != nil {
			return "", fault.New(fault.Invalid, "", "cannot run %s: %w", name, err)
		}
		return name, nil
	}
	var found error
	for _, d := range filepath.SplitList(path) {
		file := filepath.Join(d, name)
		err := executable(file)
		if err == nil && filepath.IsAbs(file) {
			return file, nil
		}
		if err != nil && !os.IsNotExist(err) && found == nil {
			found = fault.New(fault.Invalid, "", "cannot run %s: %w", file, err)
		}
	}
	if found != nil {
		return "", found
	}
	return "", fault.New(fault.Invalid, "a command with a slash is taken as a file",
		"cannot find %q: looked in %s", name, strings.Join(filepath.SplitList(path), ", "))
}

func executable(file string) error {
	st, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return fmt.Errorf("it is a folder")
	case st.Mode()&0o111 == 0:
		return fmt.Errorf("it is not executable")
	default:
		return nil
	}
}

// checkTemplate says why a template cannot be run here. It fetches nothing.
func (h *Host) checkTemplate(t service.Template) error {
	if len(t.Command) == 0 {
		return fault.New(fault.Invalid, "", "cannot run an empty command")
	}
	for k := range t.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(t.Env[k], "\x00") {
			return fault.New(fault.Invalid, "", "cannot set environment variable %q", k)
		}
	}
	if t.Dir != "" {
		if st, err := os.Stat(t.Dir); err != nil || !st.IsDir() || !filepath.IsAbs(t.Dir) {
			return fault.New(fault.Invalid, "", "cannot run in %s: there is no such folder on host %q", t.Dir, h.cfg.Name)
		}
	}
	if _, err := accountOf(t.User); err != nil {
		return err
	}
	if t.Artifact != "" {
		return checkDigest(t.Artifact)
	}
	// A relative command without a folder of its own runs in an empty one.
	dir := t.Dir
	if dir == "" {
		dir = h.folder.path(dirWork)
	}
	_, err := findCommand(t.Command[0], dir, h.pathOf(t))
	return err
}

func (h *Host) pathOf(t service.Template) string {
	if p := t.Env["PATH"]; p != "" {
		return p
	}
	return h.cfg.Path
}

// folders of one instance, under one that is removed with it.
type folders struct {
	base string
	dir  string // empty at its start: where it runs unless its template says otherwise
	tmp  string
}

// makeFolders makes them, owned by whom the instance runs as. The base stays
// the host's, and lets its user pass through.
func makeFolders(base string, user *account) (folders, error) {
	f := folders{base: base, dir: filepath.Join(base, "dir"), tmp: filepath.Join(base, "tmp")}
	if err := os.Mkdir(f.base, 0o711); err != nil {
		return f, fmt.Errorf("cannot make the instance's folder: %w", err)
	}
	for _, d := range []string{f.dir, f.tmp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return f, fmt.Errorf("cannot make the instance's folder: %w", err)
		}
		if user == nil {
			continue
		}
		if err := os.Chown(d, int(user.cred.Uid), int(user.cred.Gid)); err != nil {
			return f, fmt.Errorf("cannot give the instance its folder: %w", err)
		}
	}
	return f, nil
}

// spawn makes the process, in a session of its own.
func spawn(l launch) (*os.Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("cannot start: %w", err)
	}
	defer null.Close()
	sys := &syscall.SysProcAttr{Setsid: true}
	if l.user != nil {
		sys.Credential = l.user.cred
	}
	attr := &os.ProcAttr{Dir: l.dir, Env: environ(l.env), Files: []*os.File{null, l.out, l.out}, Sys: sys}
	// A file that was just written is busy as long as another fork of this
	// process, made meanwhile, has not reached its exec.
	for wait := time.Millisecond; ; wait *= 2 {
		p, err := os.StartProcess(l.path, l.argv, attr)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, syscall.ETXTBSY) || wait > time.Second {
			return nil, fault.New(fault.Invalid, "", "cannot start %s: %w", l.path, err)
		}
		time.Sleep(wait)
	}
}
