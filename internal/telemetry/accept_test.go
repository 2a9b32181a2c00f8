package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// scripted fails to accept while it is ill.
type scripted struct {
	net.Listener
	ill bool
}

func (s *scripted) Accept() (net.Conn, error) {
	if s.ill {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return nil, nil
}

// Each second of five minutes one connection cannot be accepted, and one can.
func TestWhatCannotBeAcceptedIsCountedAndToldAtGrowingIntervals(t *testing.T) {
	var out bytes.Buffer
	o := NewOps(slog.New(slog.NewTextHandler(&out, nil)))
	s := &scripted{}
	w := o.Watch(s, "requests").(*watched)
	now := time.Now()
	w.now = func() time.Time { return now }
	for range 300 {
		now = now.Add(time.Second)
		s.ill = true
		if _, err := w.Accept(); !errors.Is(err, syscall.EMFILE) {
			t.Fatalf("the server is told %v", err)
		}
		s.ill = false
		if _, err := w.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(calm)
	for range 2 {
		if _, err := w.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	warned, again := strings.Count(out.String(), "level=WARN"), strings.Count(out.String(), "accepted again")
	if warned != 5 || again != 1 || !strings.Contains(out.String(), "listener=requests") {
		t.Errorf("%d warnings and %d ends of them:\n%s", warned, again, out.String())
	}
	families, err := o.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "fairlead_accept_errors_total" {
			if n := f.GetMetric()[0].GetCounter().GetValue(); n != 300 {
				t.Errorf("%v failures are counted", n)
			}
			return
		}
	}
	t.Error("the failures are not counted")
}
