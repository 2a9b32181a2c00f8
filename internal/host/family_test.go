package host_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestAProgramThatForksTwiceIsToldToStayInTheForeground(t *testing.T) {
	r := start(t)
	r.assign(t, service.Template{Command: []string{"python3", "-c", `
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
time.sleep(600)`}})
	in := r.awaitDetail(t, "python3 left its session (pid ")
	if !strings.HasSuffix(in.GetDetail(), "): run it in the foreground") && !strings.Contains(in.GetDetail(), "): run it in the foreground;") {
		t.Errorf("it is told %q", in.GetDetail())
	}
	if err := r.Stop(service.Stop{Slot: in.GetSlot()}); err != nil {
		t.Fatal(err)
	}
	until(t, "no instance", func() bool { return len(r.Reports()) == 0 })
	until(t, "no process", func() bool { return len(host.Carriers(in.GetId())) == 0 }) // a killed one takes its time on a busy machine
}

func TestAProgramThatFailsIsShownByItsStatusThoughAHelperIsLeft(t *testing.T) {
	r := start(t)
	r.assign(t, service.Template{Command: []string{"sh", "-c", `setsid sleep 600 & sleep 0.1; exit 3`}})
	r.awaitDetail(t, "exit status 3")
}

func TestADescendantThatHidesEndsWithItsInstance(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *room, *pb.InstanceReport){
		"stopped": func(t *testing.T, r *room, in *pb.InstanceReport) {
			if err := r.Stop(service.Stop{Slot: in.GetSlot()}); err != nil {
				t.Fatal(err)
			}
		},
		"killed": func(t *testing.T, _ *room, in *pb.InstanceReport) {
			if err := syscall.Kill(int(in.GetPid()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t)
			file := filepath.Join(t.TempDir(), "pid")
			inner := strings.Join(hosttest.TemplateOf(hosttest.Serves).Command[:3], " ")
			r.assign(t, service.Template{Command: []string{
				"sh", "-c", `setsid env -i sh -c 'echo $$$$ >` + file + `.new; mv ` + file + `.new ` + file + `; sleep 600; true' & ` + inner + ` "$PORT"; true`,
			}})
			in := r.awaitLive(t)
			until(t, "the one that hides", func() bool { _, err := os.Stat(file); return err == nil })
			hidden := pidIn(t, file)
			until(t, "it is seen", func() bool { return r.Remembers(in.GetId(), hidden) })
			end(t, r, in)
			until(t, "the end of the one that hides", func() bool { return syscall.Kill(hidden, 0) != nil || host.Ended(hidden) })
		})
	}
}

func pidIn(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
