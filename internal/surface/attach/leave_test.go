package attach_test

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// running is a host in this process that has attached.
func (p *plane) running(t *testing.T, leave time.Duration) (end func(), ended <-chan error) {
	t.Helper()
	cfg := hostConfig("alpha", p.dir, p.addr)
	cfg.Leave = leave
	h, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	p.await(t, "host alpha reported", func(st service.HostState) bool { return st.Connected && st.Reported && !st.Left })
	return cancel, done
}

func TestAHostThatEndsInOrderSaysSoAndEndsWhenItIsLetGo(t *testing.T) {
	p := newPlane(t, nil)
	end, ended := p.running(t, time.Hour)
	st := p.await(t, "what it has free", func(st service.HostState) bool { return st.Free > 0 })
	if st.Leaving || st.Left || st.Refuses != "" {
		t.Errorf("a host that runs says %+v", st)
	}
	end()
	p.await(t, "goodbye", func(st service.HostState) bool { return st.Leaving && st.Connected && !st.Left })
	if err := p.Release(t.Context(), epoch, "alpha", service.Release{Empty: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	p.await(t, "its last word", func(st service.HostState) bool { return st.Left && !st.Connected && len(st.Instances) == 0 })
	end, ended = p.running(t, 50*time.Millisecond) // which ends what it said before
	end()
	if err := <-ended; err != nil { // nobody let it go: its time has passed
		t.Errorf("it ended with %v", err)
	}
	p.await(t, "its last word", func(st service.HostState) bool { return st.Left && !st.Connected })
}
