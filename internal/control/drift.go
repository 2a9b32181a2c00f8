package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// drift is what a pass has noted of a gateway that served other routes than
// were offered under the number of its table: a file that was edited, a memory
// that failed. What of the table differs is not known, so it concerns all.
type drift struct {
	seen int       // of service.GatewayState.Drifts
	told time.Time // when histories were told last
}

// driftTold bounds how often one gateway writes into the histories of all.
const driftTold = time.Minute

// driftsOften is how often a gateway has drifted when it is not by chance.
const driftsOften = 3

// repairDrift compares what gateways serve with what was offered to them, and
// has the whole table sent again to those where it differs.
func (t *term) repairDrift(ctx context.Context) {
	again := false
	for _, g := range t.c.cfg.Gateways.States() {
		again = again || g.Drifted
		d := t.drifts[g.Name]
		if g.Drifts > d.seen {
			t.c.metrics.repairs.WithLabelValues("gateway").Add(float64(g.Drifts - d.seen))
			t.c.log.Error("a gateway served other routes than were published; it is sent the whole table", "gateway", g.Name, "table", g.Serves)
			if time.Since(d.told) >= driftTold {
				d.told = time.Now()
				t.start(func() { t.tellDrift(ctx, g.Name) })
			}
		}
		d.seen = g.Drifts
		t.drifts[g.Name] = d
	}
	if again {
		t.offerAgain()
	}
}

// tellDrift writes it into the history of each service that is routed.
func (t *term) tellDrift(ctx context.Context, gateway string) {
	text := fmt.Sprintf("gateway %s served other routes than were published under the number of its table: the whole table was sent to it anew", gateway)
	for _, s := range t.mirror.all() {
		if !s.Routes.Exists() || !s.Desired.Exists() {
			continue
		}
		j := &job{term: t, service: s.Service}
		_, err := t.led.apply(ctx, j.note("repair", text), checkDoc(service.KindDesired, s.Service, s.Desired))
		if err != nil && !errors.Is(err, saga.ErrStale) && ctx.Err() == nil {
			t.c.log.Warn("cannot write into a history", "service", s.Service, "error", err)
		}
	}
}

// alarmDrift is what is said of a gateway for as long as it has drifted.
func alarmDrift(g service.KnownGateway) string {
	if g.State == nil || !g.State.Drifted {
		return ""
	}
	words := fmt.Sprintf("gateway %s serves other routes than were published under the number of its table; it is sent the whole table, and nothing is stopped until it has it", g.Name)
	if g.State.Drifts >= driftsOften {
		words += fmt.Sprintf("; that has not helped %d times: where its program (%s) is older than this control's it cannot verify what it is sent, so upgrade it; gateways and hosts are to be upgraded before control",
			g.State.Drifts, cmp.Or(g.State.Library, "unknown"))
	}
	return words
}
