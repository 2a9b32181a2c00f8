package host_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestOnAFullDiskInstancesAreStillRestartedAndStopped(t *testing.T) {
	h, err := host.New(config(filepath.Join(t.TempDir(), "host")))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Health(); err != nil || h.Ballast() < 1<<20 {
		t.Fatalf("a fresh host keeps %d bytes, %v", h.Ballast(), err)
	}
	makeRoom := h.FullDisk()
	ctx, cancel := context.WithCancel(t.Context())
	r := &room{Host: h, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- h.Run(ctx) }()
	t.Cleanup(func() { r.end(t) })
	until(t, "the host runs", h.Running)

	r.assign(t, hosttest.TemplateOf(hosttest.Serves))
	first := r.awaitLive(t)
	if err := syscall.Kill(int(first.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.await(t, "a new process", func(in *pb.InstanceReport) bool {
		return in.GetId() != first.GetId() && in.GetState() == "live"
	})
	if err := h.Health(); !errors.Is(err, fault.Exhausted) {
		t.Errorf("the host says of a full disk: %v", err)
	}
	if why := h.Refuses(); !strings.Contains(why, "full") {
		t.Errorf("on a full disk control is told %q", why)
	}
	if err := r.Stop(service.Stop{Slot: first.GetSlot()}); err != nil {
		t.Fatal(err)
	}
	until(t, "no instance", func() bool { return len(r.Reports()) == 0 })
	makeRoom()
	until(t, "its room is taken again", func() bool { return h.Health() == nil && h.Ballast() >= 1<<20 })
	if why := h.Refuses(); why != "" {
		t.Errorf("with room control is told %q", why)
	}
}
