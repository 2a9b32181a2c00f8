package gatewaytest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/gatewaytest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// calls is a caller with what it said was wrong.
type calls struct {
	*gatewaytest.Caller
	wrong []string
}

func (c *calls) ticks(n int) {
	for range n {
		time.Sleep(100 * time.Millisecond)
		c.Tick(10)
	}
}

func (c *calls) starts(instance, revision string) {
	c.Offered(service.Instance{ID: instance, Service: "a", Revision: revision}, revision)
}

func TestTheCallerSaysWhichPromiseOfRequestsIsBroken(t *testing.T) {
	for _, tc := range []struct {
		name      string
		exclusive bool
		do        func(s *gatewaytest.Sim, p *gatewaytest.SimPort, c *calls)
		says      string // empty: nothing is wrong
	}{
		{"nothing happens", false, func(_ *gatewaytest.Sim, _ *gatewaytest.SimPort, c *calls) { c.ticks(30) }, ""},
		{"it is withdrawn and drains", false, func(_ *gatewaytest.Sim, p *gatewaytest.SimPort, c *calls) {
			c.ticks(20)
			c.starts("2", "a-2")
			p.Offer(table(epoch(1), 2, "a-2"))
			synctest.Wait()
			c.Withdrawn("1")
			c.ticks(15)
			c.Ended("1", 1500*time.Millisecond)
		}, ""},
		{"it is ended while it is busy", false, func(_ *gatewaytest.Sim, p *gatewaytest.SimPort, c *calls) {
			c.ticks(20)
			c.starts("2", "a-2")
			p.Offer(table(epoch(1), 2, "a-2"))
			synctest.Wait()
			c.Withdrawn("1")
			c.Ended("1", time.Millisecond)
		}, "is lost"},
		{"it is killed and another answers", false, func(_ *gatewaytest.Sim, _ *gatewaytest.SimPort, c *calls) {
			c.starts("2", "a-1")
			c.ticks(20)
			c.Ended("1", -1)
			c.ticks(20)
		}, ""},
		{"nothing answers", false, func(_ *gatewaytest.Sim, _ *gatewaytest.SimPort, c *calls) {
			c.ticks(5)
			c.Withdrawn("1")
			c.ticks(20)
		}, "waits, by now"},
		{"the table leads to what does not run", false, func(_ *gatewaytest.Sim, p *gatewaytest.SimPort, c *calls) {
			p.Offer(table(epoch(1), 2, "a-2"))
			synctest.Wait()
			c.ticks(20)
		}, "waits, by now"},
		{"two revisions answer beside each other", false, func(s *gatewaytest.Sim, p *gatewaytest.SimPort, c *calls) {
			handOverOneByOne(s, p, c)
		}, ""},
		{"two revisions answer at once under an exclusive handover", true, func(s *gatewaytest.Sim, p *gatewaytest.SimPort, c *calls) {
			handOverOneByOne(s, p, c)
		}, "still answers one"},
		{"a gateway dies", false, func(s *gatewaytest.Sim, _ *gatewaytest.SimPort, c *calls) {
			c.ticks(20)
			s.Gateway("g").Restart()
			c.ticks(20)
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *gatewaytest.Sim) {
				c := &calls{}
				c.Caller = s.NewCaller(gatewaytest.CallerConfig{
					Service: "a", Wait: time.Second, Exclusive: tc.exclusive,
					Wrong: func(what string) { c.wrong = append(c.wrong, what) },
				})
				p := s.Attach(gatewaytest.PortConfig{})
				c.starts("1", "a-1")
				p.Offer(table(epoch(1), 1, "a-1"))
				synctest.Wait()
				tc.do(s, p, c)
				said := strings.Join(c.wrong, "\n")
				if tc.says == "" && said != "" || !strings.Contains(said, tc.says) {
					t.Errorf("it says %q, not %q", said, tc.says)
				}
				if tc.says == "" && c.Answered()["a-1"] == 0 {
					t.Error("nothing was answered")
				}
			}, "g", "h")
		})
	}
}

// handOverOneByOne has one gateway route to another revision before the other does.
func handOverOneByOne(s *gatewaytest.Sim, p *gatewaytest.SimPort, c *calls) {
	c.starts("2", "a-2")
	c.ticks(5)
	s.Gateway("h").Lag(2 * time.Second)
	p.Offer(table(epoch(1), 2, "a-2"))
	synctest.Wait()
	c.ticks(20)
}
