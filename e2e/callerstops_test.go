package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNothingThatACallerMayPickIsStoppedByADeployARestartAFewerOrACollection: a
// caller with the README's ten lines sends requests to a service all the while,
// straight to its instances, and not one fails.
func TestNothingThatACallerMayPickIsStoppedByADeployARestartAFewerOrACollection(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	identity := filepath.Join(f.data, "caller")
	f.must("identity", "caller", "batch", "--out", identity)
	f.must("deploy", "hello", "--instances", "3", "--", testapp)
	c := f.startCaller("hello", filepath.Join(f.data, "state"), identity)
	c.waitFor("first 200 OK", 20*time.Second)
	for _, step := range [][]string{
		{"deploy", "hello", "--", testapp2},
		{"restart", "hello"},
		{"scale", "hello", "1"},
		{"scale", "hello", "3"},
		{"deploy", "hello", "--env", "A=1"}, // only one revision is kept warm: the first is collected
		{"scale", "hello", "2"},
		{"restart", "hello"},
	} {
		c.more(100)
		f.must(step...)
	}
	gone := func() bool {
		for _, i := range f.status("hello").Instances {
			if i.Revision == "hello-00001" {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(60 * time.Second); !gone(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the first revision is not collected:\n%s", f.must("explain", "hello").stdout)
		}
	}
	table := f.must("routes", "hello").stdout
	for _, who := range []string{"hello-00003", "gateway/", "caller/batch", "current"} {
		if !strings.Contains(table, who) {
			t.Errorf("the table does not say %q:\n%s", who, table)
		}
	}
	c.more(100)
	c.end()
}
