package host

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// account is whom an instance runs as; nil means as the host itself.
type account struct {
	name string
	home string
	cred *syscall.Credential
}

// accountOf looks a user up, by name or number, with its supplementary groups.
// Only root can give an instance another user than its own.
func accountOf(name string) (*account, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil, fault.New(fault.Invalid, "", "cannot run as user %q: there is no such user on this host", name)
		}
	}
	if u.Uid == strconv.Itoa(os.Geteuid()) {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fault.New(fault.Invalid, "run the host as root, or leave the user out",
			"cannot run as user %q: this host does not run as root, so that it cannot change users", name)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot read the groups of user %q: %w", name, err)
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	cred := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	err = errors.Join(uerr, gerr)
	for _, g := range groups {
		n, perr := strconv.ParseUint(g, 10, 32)
		err = errors.Join(err, perr)
		cred.Groups = append(cred.Groups, uint32(n))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read user %q: %w", name, err)
	}
	return &account{name: u.Username, home: u.HomeDir, cred: cred}, nil
}

// trustedDir makes a folder that only root can write and everyone may pass
// through, and refuses one that somebody else has put there.
func trustedDir(dir string) error {
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("cannot make a folder for users' instances: %w", err)
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("cannot make a folder for users' instances: %w", err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || !st.IsDir() || sys.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("cannot use %s for users' instances: it is not a folder of this host's own", dir)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return fmt.Errorf("cannot make a folder for users' instances: %w", err)
	}
	return nil
}
