package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
)

// A child is this test binary started again with childMode set. It opens the
// store at childPath and does what the mode says; each line that it prints is
// one write.
const (
	childMode = "FAIRLEAD_STORE_CHILD"
	childPath = "FAIRLEAD_STORE_PATH"
	childSync = "FAIRLEAD_STORE_SYNCHRONOUS"
)

// childWrites is the number of documents that writeAndTell writes.
const childWrites = 200

// childCheckpoint makes a child checkpoint every few commits.
const childCheckpoint = 64

// runChild is called first by TestMain and returns only where this is no child.
func runChild() {
	mode := os.Getenv(childMode)
	if mode == "" {
		return
	}
	if mode == "count" {
		os.Exit(count(os.Getenv(childPath)))
	}
	run := map[string]func(*Store) error{"hold": hold, "write": writeAndTell, "faulty": writeOnFaultyDisk, "slow": writeOnSlowDisk, "obey": obey}[mode]
	s, err := Open(Options{Path: os.Getenv(childPath), synchronous: os.Getenv(childSync), checkpoint: childCheckpoint})
	if err == nil {
		err = run(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// command returns the child's command; before is put in front of it.
func command(mode, path string, before ...string) *exec.Cmd {
	args := append(before, os.Args[0])
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), childMode+"="+mode, childPath+"="+path)
	c.Stderr = os.Stderr
	return c
}

// startChild starts the command and returns its lines. It is killed at the end
// of the test, if it still runs then.
func startChild(t *testing.T, c *exec.Cmd) (lines *bufio.Scanner, stdin io.WriteCloser) {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return bufio.NewScanner(out), in
}

// count prints the number of documents as one who reads the file sees it.
func count(path string) int {
	db, err := sql.Open("sqlite", dsn(path, "mode", "ro"))
	if err == nil {
		var n int
		err = errors.Join(db.QueryRow("SELECT count(*) FROM documents").Scan(&n), db.Close())
		fmt.Println(n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

// hold keeps the store open until standard input ends.
func hold(s *Store) error {
	fmt.Println("open")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// writeAndTell writes documents from 4 goroutines and prints the name of each
// after Apply has returned. It does not close the store.
func writeAndTell(s *Store) error {
	const writers, each = 4, childWrites / 4
	errs := make(chan error, writers)
	for i := range writers {
		go func() {
			for j := range each {
				if err := tell(s, fmt.Sprintf("w%d-%03d", i, j)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func tell(s *Store, name string) error {
	if _, err := s.Apply(context.Background(), writing(name)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(os.Stdout, "ack %s\n", name)
	return err
}

// writing is the Apply that writes the named document.
func writing(name string) store.Apply {
	return store.Apply{ID: name, Writes: []store.Write{{Key: store.Key{Kind: "thing", Name: name}, Body: fmt.Appendf(nil, `{"name":%q}`, name)}}}
}

// missing returns those names whose document is not there as it was written.
func missing(s *Store, names []string) ([]string, error) {
	list, _, err := s.List(context.Background(), "thing")
	if err != nil {
		return nil, err
	}
	there := map[string]string{} // :: name → body
	for _, d := range list {
		there[d.Name] = string(d.Body)
	}
	var lost []string
	for _, name := range names {
		if there[name] != string(writing(name).Writes[0].Body) {
			lost = append(lost, name)
		}
	}
	return lost, nil
}

// writeOnFaultyDisk writes documents one after the other, and some at the same
// time, on a disk whose syncs fail now and then. After an error it checks that
// the error told the truth, and repeats until done.
func writeOnFaultyDisk(s *Store) error {
	var tally faults
	for round := range 20 {
		var all sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			all.Go(func() { errs[i] = tally.writeUntilDone(s, fmt.Sprintf("f%02d-%d", round, i)) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
	fmt.Printf("refused %d unknown %d\n", tally.refused, tally.unknown)
	return nil // not closed: what follows is a death
}

// obey does what standard input says, "apply NAME", "leave NAME" (an apply that
// is given up after a moment) or "get NAME", and prints how that went.
func obey(s *Store) error {
	fmt.Println("open")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		verb, name, _ := strings.Cut(lines.Text(), " ")
		var err error
		switch verb {
		case "apply":
			_, err = s.Apply(context.Background(), writing(name))
		case "leave":
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			_, err = s.Apply(ctx, writing(name))
			cancel()
		default:
			_, err = s.Get(context.Background(), store.Key{Kind: "thing", Name: name})
		}
		switch {
		case err == nil:
			fmt.Println("done")
		case errors.Is(err, store.ErrUnknown) && errors.Is(err, store.ErrGone):
			fmt.Println("unknown gone")
		case errors.Is(err, store.ErrGone):
			fmt.Println("gone")
		case errors.Is(err, store.ErrUnknown):
			fmt.Println("unknown")
		case errors.Is(err, store.ErrReadOnly):
			fmt.Println("read-only")
		case errors.Is(err, store.ErrNotFound):
			fmt.Println("not found")
		default:
			fmt.Println(err)
		}
	}
	return s.Close()
}
