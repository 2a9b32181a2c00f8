package control_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// leaving gateways are forgotten when the leader turns, as by the real port. Who
// looks at them while it ends does so after that.
type leaving struct {
	control.Gateways
	ends, turned chan struct{}
}

func (g *leaving) States() []service.GatewayState {
	select {
	case <-g.ends:
		<-g.turned
		return nil
	default:
		return g.Gateways.States()
	}
}

func TestAnOrderlyEndRaisesNoAlarm(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var log bytes.Buffer // written to by the leader alone, and read when that has ended
		g := &leaving{ends: make(chan struct{}), turned: make(chan struct{})}
		c := r.start(options{edit: func(cfg *control.Config) {
			g.Gateways, cfg.Gateways = cfg.Gateways, g
			cfg.Turned = func(leads bool) {
				if !leads {
					close(g.turned)
				}
			}
			cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		}})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		time.Sleep(20*time.Second + 300*time.Millisecond) // between two looks
		close(g.ends)
		c.stop()
		if text := log.String(); strings.Contains(text, "msg=alarm") {
			t.Errorf("it is told:\n%s", text)
		}
		if a := c.Alarms(); len(a) > 0 {
			t.Errorf("what was seen at its end is in force for ever: %q", a)
		}
	})
}
