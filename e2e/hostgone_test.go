package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWhatAHostThatIsGoneForGoodRanIsPlacedOnTheOtherWithItsCapacity(t *testing.T) {
	t.Parallel()
	p := newPlant(t, plantOptions{})
	eventually(t, 10*time.Second, "both hosts are attached", func() bool { return strings.Count(p.must("hosts").stdout, " yes ") == 2 })
	p.deploy("hello", "--instances", "4")
	p.agree("hello", "hello-00001", 10*time.Second)
	on := func(host string) (live []instance) {
		for _, i := range p.status("hello").Instances {
			if i.Host == host && i.State == "live" && alive(i.Pid) {
				live = append(live, i)
			}
		}
		return live
	}
	if len(on("h1")) != 2 || len(on("h2")) != 2 {
		t.Fatalf("the instances are not spread: %+v", p.status("hello").Instances)
	}
	c := p.call("hello", 6, "hello-00001")
	c.more(100)
	lost := on("h2")
	p.hosts[1].kill() // first, so that it starts none of them again
	for _, i := range lost {
		p.away(instancesOf("hello"))
		if err := syscall.Kill(i.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.back(instancesOf("hello"), noticed)
	}
	eventually(t, 10*time.Second, "what it ran is not shown as live any more", func() bool {
		return len(on("h2")) == 0 && strings.Contains(p.must("status", "hello").stdout, " unheard ")
	})
	c.more(200) // by those of the other
	eventually(t, 60*time.Second, "four instances are live on the host that is left", func() bool { return len(on("h1")) == 4 })
	if out := p.must("explain", "hello").stdout; !strings.Contains(out, "host h2 said so") || !strings.Contains(out, "is not heard") {
		t.Errorf("what it last said is not told from what is heard:\n%s", out)
	}
	if out := p.must("events", "hello").stdout; !strings.Contains(out, "lost is host h2") {
		t.Errorf("the history does not say why:\n%s", out)
	}
	c.more(100)
	c.end()
}
