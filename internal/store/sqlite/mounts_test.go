package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// inPrivateMounts runs the body in this test binary started again, with mounts
// of its own that nobody else sees and that end with it.
func inPrivateMounts(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	const marker = "FAIRLEAD_PRIVATE_MOUNTS"
	if os.Getenv(marker) == t.Name() {
		body(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts file systems of its own: run it as root (in a container, for example)")
	}
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	c.Env = append(os.Environ(), marker+"="+t.Name())
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("in private mounts: %v\n%s", err, out)
	}
}

// smallDisk mounts a memory disk of the size in bytes. It goes with the process.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatalf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// fillUp takes all the room of the folder's disk.
func fillUp(t *testing.T, folder string) (filler string) {
	t.Helper()
	filler = filepath.Join(folder, "filler")
	f, err := os.OpenFile(filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 64<<10); err == nil || len(block) > 1; {
		if _, err = f.Write(block); err != nil {
			block = block[:(len(block)+1)/2]
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return filler
}

const ballastSize = 16 << 20

func TestOnAFullDiskDeletesAndEssentialWritesAreStillRecorded(t *testing.T) {
	inPrivateMounts(t, func(t *testing.T) {
		folder := smallDisk(t, 40<<20)
		o := Options{Path: filepath.Join(folder, "store.db"), Ballast: ballastSize}
		d := &fullDisk{T: t, s: mustOpen(t, o), names: map[string]bool{}}
		d.ballast(true)
		for i := range 20 {
			d.done(writing(fmt.Sprintf("before%02d", i)))
		}
		filler := fillUp(t, folder)
		d.untilFull()
		d.ballast(false)

		d.done(deleting("before00"))
		essential := writing("route")
		essential.Essential = true
		d.done(essential)
		d.refused(writing("more"))
		d.refused(store.Apply{ID: "mixed", Writes: append(deleting("before01").Writes, writing("x").Writes...)})
		if r, err := d.s.Apply(t.Context(), writing("before02")); err != nil || !r.Repeated {
			t.Fatalf("a repeated Apply on a full disk: %+v, %v", r, err)
		}
		conflicting := writing("before02")
		conflicting.ID = "conflicting"
		if _, err := d.s.Apply(t.Context(), conflicting); store.AsConflict(err) == nil {
			t.Fatalf("a conflict on a full disk: got %v", err)
		}
		d.listed()

		// Another process starts on the disk that is still full.
		if err := d.s.Close(); err != nil {
			t.Fatal(err)
		}
		fillUp(t, folder)
		d.s = mustOpen(t, o)
		d.listed()
		d.refused(writing("after-restart"))

		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		d.done(writing("room-again"))
		d.ballast(true)
		d.done(deleting("before03"))
		d.listed()
	})
}

func TestADiskFullBeyondTheBallastLosesNothing(t *testing.T) {
	inPrivateMounts(t, func(t *testing.T) {
		folder := smallDisk(t, 24<<20)
		o := Options{Path: filepath.Join(folder, "store.db"), Ballast: 4 << 20}
		d := &fullDisk{T: t, s: mustOpen(t, o), names: map[string]bool{}}
		d.done(writing("before"))
		filler := fillUp(t, folder)
		d.untilFull()
		var err error
		for i := 0; err == nil; i++ {
			a := writing(fmt.Sprintf("essential%05d", i))
			a.Essential = true
			a.Writes[0].Body = fmt.Appendf(nil, "%q", strings.Repeat("x", 100<<10))
			if _, err = d.s.Apply(t.Context(), a); err == nil {
				d.names[a.ID] = true
			}
		}
		if !errors.Is(err, store.ErrFull) {
			t.Fatalf("got %v, want %v", err, store.ErrFull)
		}
		d.listed()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		d.done(writing("room-again"))
		if err := d.s.Close(); err != nil {
			t.Fatal(err)
		}
		d.s = mustOpen(t, o)
		d.listed()
	})
}

// fullDisk is a store on a disk that is, or will be, full, and the names of
// the documents that must stand in it.
type fullDisk struct {
	*testing.T
	s     *Store
	names map[string]bool
}

func deleting(name string) store.Apply {
	return store.Apply{ID: "delete-" + name, Writes: []store.Write{{Key: store.Key{Kind: "thing", Name: name}, Any: true, Delete: true}}}
}

func (d *fullDisk) done(a store.Apply) {
	d.Helper()
	if _, err := d.s.Apply(context.Background(), a); err != nil {
		d.Fatalf("%s: %v", a.ID, err)
	}
	for _, w := range a.Writes {
		d.names[w.Name] = true
		if w.Delete {
			delete(d.names, w.Name)
		}
	}
}

func (d *fullDisk) refused(a store.Apply) {
	d.Helper()
	_, err := d.s.Apply(context.Background(), a)
	if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "make room in ") {
		d.Fatalf("%s: got %v, want %v and what to do", a.ID, err, store.ErrFull)
	}
	leads(d.T, err, a, "disk is full: make room in ")
}

// untilFull writes until that is refused: there is room in pages that the
// store already has.
func (d *fullDisk) untilFull() {
	d.Helper()
	for i := range 5000 {
		a := writing(fmt.Sprintf("last%04d", i))
		_, err := d.s.Apply(context.Background(), a)
		if errors.Is(err, store.ErrFull) {
			d.refused(a)
			return
		}
		if err != nil {
			d.Fatal(err)
		}
		d.names[a.ID] = true
	}
	d.Fatal("the disk does not fill up")
}

// ballast checks that the room is held, or given away and so reported.
func (d *fullDisk) ballast(held bool) {
	d.Helper()
	var st unix.Stat_t
	err := unix.Stat(d.s.ballast.path, &st)
	if d.s.Full() == held || err != nil || held && st.Blocks*512 < ballastSize || !held && st.Blocks*512 > ballastSize/8 {
		d.Fatalf("full is %t, the ballast holds %d bytes: %v", d.s.Full(), st.Blocks*512, err)
	}
}

func (d *fullDisk) listed() {
	d.Helper()
	list, _, err := d.s.List(context.Background(), "thing")
	if err != nil {
		d.Fatal(err)
	}
	for _, x := range list {
		if !d.names[x.Name] {
			d.Errorf("%s is there", x.Name)
		}
	}
	if len(list) != len(d.names) {
		d.Fatalf("%d documents stand, want %d", len(list), len(d.names))
	}
}

func TestAReadOnlyFileIsRefusedAndNothingChanges(t *testing.T) {
	inPrivateMounts(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "data")
		path := filepath.Join(folder, "store.db")
		if err := mustOpen(t, Options{Path: path}).Close(); err != nil {
			t.Fatal(err)
		}
		before := files(t, path)
		for _, target := range []string{folder, path} {
			if err := unix.Mount(target, target, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Options{Path: path})
			if !errors.Is(err, store.ErrReadOnly) || !strings.Contains(err.Error(), "make it writable") {
				t.Fatalf("%s: got %v", target, err)
			}
			if err := unix.Unmount(target, 0); err != nil {
				t.Fatal(err)
			}
		}
		if after := files(t, path); after[""] != before[""] {
			t.Fatal("the file was changed")
		}
		mustOpen(t, Options{Path: path})
	})
}
