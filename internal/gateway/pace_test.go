package gateway

import (
	"testing"
	"time"
)

func TestABodyHasToComeAtARateAfterAFirstTimeout(t *testing.T) {
	type read struct {
		n    int
		took time.Duration
	}
	for name, c := range map[string]struct {
		reads []read
		want  time.Duration
	}{
		"at first it has the time-out":              {nil, 20 * time.Second},
		"waiting uses it up":                        {[]read{{0, 15 * time.Second}}, 5 * time.Second},
		"what trickles gains next to nothing":       {[]read{{1, 10 * time.Second}, {1, 9 * time.Second}}, time.Second + 4*time.Millisecond},
		"what comes at the rate has the time-out":   {[]read{{5000, 10 * time.Second}}, 20 * time.Second},
		"what came fast may pause no longer":        {[]read{{1 << 30, time.Second}}, 20 * time.Second},
		"half the rate is too slow in the long run": {[]read{{10_000, 40 * time.Second}}, 0},
	} {
		p := pace{timeout: 20 * time.Second}
		for _, r := range c.reads {
			p.took(r.n, r.took)
		}
		if got := p.next(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
