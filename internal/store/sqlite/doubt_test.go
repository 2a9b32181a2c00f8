package sqlite

import (
	"path/filepath"
	"testing"
)

// TestAnApplyThatItsCallerLeftStaysUnknownWhileTheDiskFails has the caller
// leave a commit that hangs in the disk and then lands; when it comes again
// nothing can be looked up, and so nobody may say that nothing was written.
func TestAnApplyThatItsCallerLeftStaysUnknownWhileTheDiskFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	child := command("obey", path)
	lines, stdin := startChild(t, child)
	c := &obedient{t, lines, stdin}
	c.expect("open")
	release := injectInto(t, child.Process.Pid, "inject=fdatasync,fsync:delay_enter=1500000", path+"-wal")
	c.say("leave hangs", "unknown")
	c.say("leave waits", "context deadline exceeded") // behind it: withdrawn
	c.say("apply next", "done")                       // the writer has moved on
	release()

	release = injectInto(t, child.Process.Pid, "inject=pwrite64,openat,open:error=EROFS", path+"-wal", path+".probe")
	c.say("apply torn", "unknown") // the disk failed within its commit
	c.say("apply hangs", "unknown")
	c.say("apply waits", "read-only")
	release()

	c.say("apply hangs", "done")
	c.say("get hangs", "done")
	c.say("get waits", "not found")
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}
