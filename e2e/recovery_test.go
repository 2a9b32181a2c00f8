package e2e

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control/crashpoints"
)

func TestAFinalizeThatFailsAfterPublicationLeavesTheOldRevisionServingAndTheRetryIsTheSameRevision(t *testing.T) {
	t.Parallel()
	p, f := newFaultyPlant(t)
	p.deploy("hello")
	c := p.call("hello", 4, "hello-00001")
	c.more(100)
	fault := f.at(crashpoints.NotLanded, "event hello.", "deploy finalize:")
	c.expect()
	d := p.start(p.deployArgs("hello", "--env", "A=b")...)
	fault.hit(30 * time.Second)
	p.agree("hello", "hello-00001", 20*time.Second)
	if err := d.wait(90 * time.Second); err != nil {
		t.Log(d.out)
	}
	p.agree("hello", "hello-00002", 60*time.Second)
	c.expect("hello-00002")
	c.more(100)
	c.end()
}
