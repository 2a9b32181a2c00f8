package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatWasAcknowledgedSurvivesPowerLoss records the system calls of a child
// that writes, and at many moments of it builds the files that a power loss
// would have left: all that a sync covered, and of the rest nothing, or some
// sectors at random. What was acknowledged by then must be there. To show that
// it would notice, the same is done with SQLite's syncs turned down and off.
func TestWhatWasAcknowledgedSurvivesPowerLoss(t *testing.T) {
	for _, c := range []struct {
		synchronous string
		mayLose     bool
	}{{"FULL", false}, {"NORMAL", true}, {"OFF", true}} {
		t.Run(c.synchronous, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "data")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			trace := record(t, folder, c.synchronous)
			l := &loss{T: t, random: rand.New(rand.NewPCG(7, 7))}
			if err := replay(trace, folder, l.atAck); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d acknowledged, %d power losses, %d of them lost something", len(l.acked), l.tried, l.lossy)
			if len(l.acked) != childWrites || l.tried < 30 || !l.checkpointed {
				t.Fatalf("%d were acknowledged and %d losses tried: the record is not whole", len(l.acked), l.tried)
			}
			if !c.mayLose && l.lossy > 0 {
				t.Errorf("%d of %d power losses lost what was acknowledged, first %s", l.lossy, l.tried, l.first)
			}
			if c.mayLose && l.lossy == 0 {
				t.Errorf("no power loss lost anything although not everything was synced: this test has no teeth")
			}
		})
	}
}

// record runs the child that writes under strace and returns the record's path.
func record(t *testing.T, folder, synchronous string) string {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	child := command("write", filepath.Join(folder, "store.db"), strace(t), "-f", "-qq", "-o", trace, "-xx", "-s", "1048576", "-e", "signal=none",
		"-e", "trace=open,openat,close,pwrite64,write,fsync,fdatasync,ftruncate,rename,renameat,renameat2,unlink,unlinkat")
	child.Env = append(child.Env, childSync+"="+synchronous)
	lines, _ := startChild(t, child)
	for lines.Scan() {
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	return trace
}

// loss imitates power losses at some of the acknowledgements.
type loss struct {
	*testing.T
	random       *rand.Rand
	acked        []string
	tried, lossy int
	first        string
	checkpointed bool // the record has a checkpoint
}

func (l *loss) atAck(d *disk, line string) {
	name, ok := strings.CutPrefix(strings.TrimSpace(line), "ack ")
	if !ok {
		return
	}
	l.acked = append(l.acked, name)
	if f := d.names[filepath.Join(d.folder, "store.db")]; f != nil && (len(f.synced) > 4096 || len(f.pending) > 2) {
		l.checkpointed = true // the first page alone is written at creation
	}
	if n := len(l.acked); n > 3 && n%20 != 0 {
		return
	}
	l.try("with nothing that was not synced", d.survivors(func(int) bool { return false }))
	for range 2 {
		l.try("with some that was not synced", d.survivors(func(int) bool { return l.random.IntN(2) == 0 }))
	}
}

func (l *loss) try(how string, survivors map[string][]byte) {
	l.tried++
	lost, err := l.open(survivors)
	if err == nil && len(lost) == 0 {
		return
	}
	l.lossy++
	if l.first == "" {
		l.first = strings.TrimSpace(strings.Join(lost, " ") + " " + how)
		if err != nil {
			l.first += ": " + err.Error()
		}
	}
}

// open opens what survived, and returns what is missing of what was acknowledged.
func (l *loss) open(survivors map[string][]byte) ([]string, error) {
	folder := l.TempDir()
	for name, content := range survivors {
		if strings.HasSuffix(name, "-shm") {
			continue // an index in shared memory, built again by whoever opens
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	s, err := Open(Options{Path: filepath.Join(folder, "store.db")})
	if err != nil {
		return nil, err
	}
	lost, err := missing(s, l.acked)
	if err == nil {
		err = intact(s)
	}
	if e := s.Close(); err == nil {
		err = e
	}
	return lost, err
}

// intact has SQLite check all of its structures.
func intact(s *Store) error {
	var report string
	if err := s.engine.writer.QueryRowContext(context.Background(), "PRAGMA integrity_check").Scan(&report); err != nil {
		return err
	}
	if report != "ok" {
		return errors.New(report)
	}
	return nil
}
