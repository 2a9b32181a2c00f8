package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/internal/store/storetest"
)

// A child is this test binary started again with childMode set. It opens the
// store in childSchema at childURL and does what the mode says. Standard input
// ends when it shall end.
const (
	childMode   = "FAIRLEAD_STORE_CHILD"
	childName   = "FAIRLEAD_STORE_NAME"
	childURL    = "FAIRLEAD_STORE_URL"
	childSchema = "FAIRLEAD_STORE_SCHEMA"
)

// runChild is called first by TestMain and returns only where this is no child.
func runChild() {
	mode := os.Getenv(childMode)
	if mode == "" {
		return
	}
	run := map[string]func(*Store) error{"write": writeAtRandom, "lead": contend}[mode]
	o := Options{URL: os.Getenv(childURL), Schema: os.Getenv(childSchema)}
	// Late commits: each transaction rests a little, with its sequence taken.
	o.faults.beforeWrites = func() { time.Sleep(rand.N(3 * time.Millisecond)) }
	s, err := Open(context.Background(), o)
	if err == nil {
		err = errors.Join(run(s), s.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child is a running child.
type child struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func startChild(t *testing.T, mode, name string, o Options) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), childMode+"="+mode, childName+"="+name, childURL+"="+o.URL, childSchema+"="+o.Schema)
	c.Stderr = os.Stderr
	in, errIn := c.StdinPipe()
	out, errOut := c.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		t.Fatal(err)
	}
	c.stdin, c.lines = in, bufio.NewScanner(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

// acknowledged reads what the child says until it ends, and returns what it
// was told is done. :: Apply ID → sequence
func (c *child) acknowledged() map[string]uint64 {
	all := map[string]uint64{}
	for c.lines.Scan() {
		var id string
		var sequence uint64
		if n, _ := fmt.Sscanf(c.lines.Text(), "ack %s %d", &id, &sequence); n == 2 {
			all[id] = sequence
		}
	}
	return all
}

// untilEnd is done when standard input ends.
func untilEnd() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, it has ended
		cancel()
	}()
	return ctx
}

// teller prints each Apply that is done.
type teller struct {
	store.Store
	out *sync.Mutex
}

func (s teller) Apply(ctx context.Context, a store.Apply) (store.Result, error) {
	r, err := s.Store.Apply(ctx, a)
	if err == nil {
		s.out.Lock()
		defer s.out.Unlock()
		fmt.Printf("ack %s %d\n", a.ID, r.Sequence)
	}
	return r, err
}

// writeAtRandom writes from 4 goroutines until standard input ends.
func writeAtRandom(s *Store) error {
	ended := untilEnd()
	t := teller{Store: s, out: &sync.Mutex{}}
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		all.Go(func() {
			r, n := rand.New(rand.NewPCG(rand.Uint64(), 0)), 0
			id := func() string { n++; return fmt.Sprintf("%s-%d-%d", os.Getenv(childName), i, n) }
			for ended.Err() == nil && errs[i] == nil {
				errs[i] = storetest.WriteAtRandom(context.Background(), t, id, r, 1)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// contend adds one to a document, bound to the version that was read, until it
// has done so 100 times; a loser reads again.
func contend(s *Store) error {
	ctx, key := context.Background(), store.Key{Kind: "lease", Name: "leader"}
	t := teller{Store: s, out: &sync.Mutex{}}
	for won := 0; won < 100; {
		d, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		n := 0
		if d.Version != 0 {
			if _, err := fmt.Sscan(string(d.Body), &n); err != nil {
				return err
			}
		}
		a := store.Apply{ID: fmt.Sprintf("%s-%d-%d", os.Getenv(childName), won, d.Version)}
		a.Writes = []store.Write{{Key: key, Expect: d.Version, Body: fmt.Append(nil, n+1)}}
		_, err = t.Apply(ctx, a)
		if err == nil {
			won++
		} else if store.AsConflict(err) == nil {
			return err
		}
	}
	return nil
}
