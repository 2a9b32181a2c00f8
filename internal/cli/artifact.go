package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

// artifact is a local file that a command names, hashed.
type artifact struct {
	path   string
	digest string
	state  fileState
}

// fileState is what changes when a file does.
type fileState struct {
	size     int64
	modified time.Time
	inode    uint64
	device   uint64
}

func stateOf(f *os.File) (fileState, error) {
	info, err := f.Stat()
	if err != nil {
		return fileState{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileState{}, err
	}
	return fileState{size: info.Size(), modified: info.ModTime(), inode: st.Ino, device: uint64(st.Dev)}, nil
}

const chunkSize = 256 << 10

// localFile hashes the file that the command names; nil where it names none: a
// command without a slash is looked up on the host.
func localFile(command []string) (*artifact, error) {
	if len(command) == 0 || !strings.Contains(command[0], "/") {
		return nil, nil
	}
	path := command[0]
	if err := runnable(path); err != nil {
		return nil, err
	}
	a := &artifact{path: path}
	sum := sha256.New()
	state, err := a.read(func(b []byte) error {
		sum.Write(b) // never fails
		return nil
	})
	if err != nil {
		return nil, err
	}
	a.state, a.digest = state, "sha256:"+hex.EncodeToString(sum.Sum(nil))
	return a, nil
}

func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Invalid, "a command with a slash is a file on this machine; without one it is looked up in the PATH of the hosts", "there is no file %s", path)
	case err != nil:
		return fault.New(fault.Invalid, "", "cannot read %s: %w", path, err)
	case !info.Mode().IsRegular():
		return fault.New(fault.Invalid, "give the program itself", "%s is not a file", path)
	case info.Mode().Perm()&0o111 == 0:
		return fault.New(fault.Invalid, "run chmod +x "+path, "%s is not executable", path)
	}
	return nil
}

// read hands the file's bytes to take, and fails where the file changes or is
// replaced meanwhile.
func (a *artifact) read(take func([]byte) error) (fileState, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return fileState{}, fault.New(fault.Invalid, "", "cannot read %s: %w", a.path, err)
	}
	defer f.Close()
	before, err := stateOf(f)
	if err != nil {
		return fileState{}, fmt.Errorf("cannot read %s: %w", a.path, err)
	}
	buf := make([]byte, chunkSize)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if err := take(buf[:n]); err != nil {
				return fileState{}, err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fileState{}, fmt.Errorf("cannot read %s: %w", a.path, err)
		}
	}
	return before, a.unchanged(f, before)
}

// unchanged looks at the open file and at what its name leads to now.
func (a *artifact) unchanged(f *os.File, before fileState) error {
	after, err := stateOf(f)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", a.path, err)
	}
	named, err := os.Open(a.path)
	if err != nil {
		return a.changed()
	}
	defer named.Close()
	now, err := stateOf(named)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", a.path, err)
	}
	if after != before || now != before {
		return a.changed()
	}
	return nil
}

func (a *artifact) changed() error {
	return fault.New(fault.Invalid, "deploy again when it is whole", "%s changed while it was read: nothing was deployed", a.path)
}

// upload stores the file unless the API has it. The API holds the bytes
// against the digest, so what is stored is what was hashed.
func (c *call) upload(cl *client, a *artifact) error {
	has, err := cl.HasArtifact(c.ctx, connect.NewRequest(&fairleadv1.HasArtifactRequest{Digest: a.digest}))
	if err != nil {
		return remote(err)
	}
	if has.Msg.GetPresent() {
		return nil
	}
	s := cl.UploadArtifact(c.ctx)
	header := &fairleadv1.ArtifactHeader{Digest: a.digest, Size: a.state.size, FileName: a.path}
	err = s.Send(&fairleadv1.UploadArtifactRequest{Part: &fairleadv1.UploadArtifactRequest_Header{Header: header}})
	var state fileState
	if err == nil {
		state, err = a.read(func(b []byte) error {
			return s.Send(&fairleadv1.UploadArtifactRequest{Part: &fairleadv1.UploadArtifactRequest_Chunk{Chunk: b}})
		})
	}
	// Where the API ended the stream, its answer says why.
	if _, answer := s.CloseAndReceive(); answer != nil && (err == nil || errors.Is(err, io.EOF)) {
		return remote(answer)
	}
	if err != nil {
		return remote(err)
	}
	if state != a.state {
		return a.changed()
	}
	return nil
}
