package control_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/control"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// leaving gateways are forgotten when the leader turns, as by the real port.
type leaving struct {
	control.Gateways
	gone atomic.Bool
}

func (g *leaving) States() []service.GatewayState {
	if g.gone.Load() {
		return nil
	}
	return g.Gateways.States()
}

func TestAnOrderlyEndRaisesNoAlarm(t *testing.T) {
	inRegion(t, 1, func(r *rig) {
		var log bytes.Buffer // written to by the leader alone, and read when that has ended
		c := r.start(options{edit: func(cfg *control.Config) {
			g := &leaving{Gateways: cfg.Gateways}
			cfg.Gateways, cfg.Turned = g, func(leads bool) { g.gone.Store(!leads) }
			cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		}})
		r.deploy("hello", "one")
		r.serves(10*time.Second, "hello", "hello-00001")
		time.Sleep(20 * time.Second)
		c.stop()
		if text := log.String(); strings.Contains(text, "msg=alarm") {
			t.Errorf("it is told:\n%s", text)
		}
		if a := c.Alarms(); len(a) > 0 {
			t.Errorf("what was seen at its end is in force for ever: %q", a)
		}
	})
}
