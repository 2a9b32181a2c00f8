package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// AdmitGateway enters a gateway into the membership, with what it says that it
// serves and keeps. Nothing may be sent to it before this has returned the
// epoch. It fails as fault.Unavailable where this control does not lead.
func (c *Control) AdmitGateway(ctx context.Context, g service.GatewayState) (view.Epoch, error) {
	t, err := c.leads(ctx)
	if err != nil {
		return view.Epoch{}, err
	}
	if err := t.heed(ctx, "gateway "+g.Name, g.Epoch); err != nil {
		return view.Epoch{}, err
	}
	t.heedTable(g)
	for {
		old := t.mirror.member(g.Name)
		next := service.Gateway{
			Name: g.Name, Session: g.Session, Poll: g.Poll, Public: g.Public,
			Serves: g.Serves, Keeps: g.Keeps, Entered: old.Value.Entered,
		}
		if next.Entered.IsZero() {
			next.Entered = time.Now()
		}
		if old.Version != 0 && next == old.Value {
			return t.led.Epoch(), nil
		}
		_, err := t.led.apply(ctx, put(key(service.KindGateway, g.Name), old.Version, next))
		if err == nil {
			return t.led.Epoch(), nil
		}
		if !errors.Is(err, saga.ErrStale) {
			return view.Epoch{}, fmt.Errorf("cannot enter gateway %s: %w", g.Name, err)
		}
	}
}

// AdmitHost enters a host into the membership; kept is the highest epoch that
// it has kept.
func (c *Control) AdmitHost(ctx context.Context, h service.Host, kept view.Epoch) (view.Epoch, error) {
	t, err := c.leads(ctx)
	if err != nil {
		return view.Epoch{}, err
	}
	if err := t.heed(ctx, "host "+h.Name, kept); err != nil {
		return view.Epoch{}, err
	}
	for {
		old := t.mirror.host(h.Name)
		h.Draining = old.Value.Draining
		if h.Entered = old.Value.Entered; h.Entered.IsZero() {
			h.Entered = time.Now()
		}
		if old.Version != 0 && h == old.Value {
			return t.led.Epoch(), nil
		}
		_, err := t.led.apply(ctx, put(key(service.KindHost, h.Name), old.Version, h))
		if err == nil {
			return t.led.Epoch(), nil
		}
		if !errors.Is(err, saga.ErrStale) {
			return view.Epoch{}, fmt.Errorf("cannot enter host %s: %w", h.Name, err)
		}
	}
}

// AdmitProber says whether a prober may be led; kept is the highest epoch that
// it was led by. An error means that it may not, and says why.
func (c *Control) AdmitProber(ctx context.Context, name string, kept view.Epoch) error {
	t, err := c.leads(ctx)
	if err != nil {
		return err
	}
	return t.heed(ctx, "prober "+name, kept)
}

// mostEpoch is far beyond what is reached by one at each change of the lead, and
// far below where numbers end.
const mostEpoch = 1 << 53

// heed takes the next epoch above one that somebody has kept: a store that is
// older than the world must not lead it with a number from its past.
func (t *term) heed(ctx context.Context, who string, kept view.Epoch) error {
	order := kept.Against(t.led.Epoch())
	if kept.Zero() || order != view.Newer && order != view.Rival {
		return nil
	}
	if kept.Number > mostEpoch {
		return fault.New(fault.Invalid, "its data folder is damaged: move it away, and have it join again", "%s has kept epoch %d, and no leader counts that far", who, kept.Number)
	}
	t.c.alarm(alarmEpoch, fmt.Sprintf("%s has kept epoch %d of another leader, this one led with %d: the store is older than the world; the next epoch above is taken",
		who, kept.Number, t.led.Epoch().Number))
	if err := t.led.raise(ctx, kept.Number); err != nil {
		return fmt.Errorf("cannot take an epoch above %d: %w", kept.Number, err)
	}
	t.offer()
	t.tellHosts()
	return nil
}

// heedTable says so where a gateway serves a table of this store from beyond
// its newest commit: the store was put back from a copy. What it has lost is
// not to be had again, so a person has to look.
func (t *term) heedTable(g service.GatewayState) {
	at, _ := t.mirror.reached()
	if g.Serves.Incarnation != t.led.Epoch().Incarnation || g.Serves.Counter <= at {
		return
	}
	t.c.alarm(alarmEpoch, fmt.Sprintf("gateway %s serves the routes of commit %d, and the store is at %d: the store is older than the world, and what was asked for since is lost; look at what is deployed by: fairlead get",
		g.Name, g.Serves.Counter, at))
}

// settleStore ends the alarm that the store is older than the world, once every
// known gateway is heard, serves a table of this term, and holds none that this
// store never published; and tells the history of every service of it.
func (t *term) settleStore(ctx context.Context) {
	words := t.c.alarmed(alarmEpoch)
	if words == "" || time.Since(t.began) < reportWait {
		return
	}
	w, e := t.world(), t.led.Epoch()
	if slices.ContainsFunc(w.Gateways, func(g service.KnownGateway) bool {
		return !g.Heard() || g.State.Serves.Epoch != e.Number || g.HoldsUnknown(w)
	}) {
		return
	}
	var staged []any
	for _, s := range t.mirror.all() {
		if s.Desired.Exists() {
			staged = append(staged, (&job{term: t, service: s.Service}).note("store", "every gateway follows the store again; it was older than the world: "+words))
		}
	}
	for part := range slices.Chunk(staged, eraseAtOnce) {
		if _, err := t.led.apply(ctx, part...); err != nil {
			if ctx.Err() == nil {
				t.c.log.Warn("cannot tell the history that the store was older than the world", "error", err)
			}
			return
		}
	}
	t.alarm(alarmEpoch, "")
}

// noteLost has what waits to be undone tried at once when a host that was lost
// is heard again, or retired: that may be what it waits for.
func (t *term) noteLost() {
	w, now := t.world(), map[string]bool{} // :: host name → lost, and not given up
	for name := range w.Gone {
		if now[name] = w.Gone[name] && !w.IsRetired(name); now[name] && !t.lost[name] && !w.Hosts[name].Left {
			t.c.log.Warn("a host is lost: what it ran is placed elsewhere where that can be; if it will not come back: fairlead hosts retire "+name, "host", name, "silent", hostGone)
		}
	}
	for name := range t.lost {
		if t.lost[name] && !now[name] {
			t.clocks.hurry()
		}
	}
	t.lost = now
}

// heedGateways looks at the epochs that gateways have said to keep.
func (t *term) heedGateways(ctx context.Context) {
	for _, g := range t.c.cfg.Gateways.States() {
		if err := t.heed(ctx, "gateway "+g.Name, g.Epoch); err != nil && ctx.Err() == nil {
			t.c.log.Warn("cannot heed an epoch", "gateway", g.Name, "error", err)
		}
	}
}

// alarm raises or ends an alarm about what is seen. When the term ends everybody
// leaves, and that is none.
func (t *term) alarm(what, words string) {
	select {
	case <-t.over:
	default:
		t.c.alarm(what, words)
	}
}

// alarms raises what no service is to be told of.
func (t *term) alarms() {
	for _, g := range t.gateways() {
		words := ""
		if g.State != nil && g.State.KeepError != "" {
			words = fmt.Sprintf("gateway %s cannot keep its routes on disk: %s; what it kept earlier stays served", g.Name, g.State.KeepError)
		}
		t.alarm("keep "+g.Name, words)
		t.alarm("drift "+g.Name, alarmDrift(g))
	}
	t.alarmOrphans()
	t.alarmCutOff()
	var odd []string
	for k, problem := range t.mirror.oddRecords() {
		odd = append(odd, fmt.Sprintf("record %s cannot be read: %s", k, problem))
	}
	for _, s := range t.mirror.all() {
		if text := s.UnreadRoutes(); text != "" {
			odd = append(odd, text)
		}
	}
	slices.Sort(odd)
	t.alarm("records", strings.Join(odd, "; "))
}

// alarmCutOff names the hosts that gateways hear and this control does not.
func (t *term) alarmCutOff() {
	w := t.world()
	var words []string
	for name := range w.Polls {
		if g := w.CutOff(name); g != "" && time.Since(t.began) >= reportWait {
			words = append(words, fmt.Sprintf("host %s is not heard, and polls gateway %s: what it runs answers and is kept, and can be neither stopped nor replaced until it is heard", name, g))
		}
	}
	slices.Sort(words)
	t.alarm("hosts", strings.Join(words, "; "))
}

// alarmOrphans names the services that gateways serve and the store does not have.
func (t *term) alarmOrphans() {
	by := map[string][]string{} // :: service name → gateways
	for _, g := range t.gateways() {
		if g.State == nil {
			continue
		}
		for name := range g.State.Refused {
			if g.Orphans(name) && !t.mirror.snapshot(name).Desired.Exists() {
				by[name] = append(by[name], g.Name)
			}
		}
	}
	var words []string
	for name, gateways := range by {
		words = append(words, fmt.Sprintf("service %s is served by gateway %s and is not in the store: deploy it again, or end it by fairlead delete %s", name, strings.Join(gateways, ", "), name))
	}
	slices.Sort(words)
	t.alarm("orphans", strings.Join(words, "; "))
}

// GatewayGoodbye ends the membership of a gateway that serves no more.
func (c *Control) GatewayGoodbye(ctx context.Context, name string) error {
	return c.dismiss(ctx, name, "said goodbye")
}

// RetireGateway ends the membership of a gateway on a person's word that it
// routes no more. It fails as fault.NotFound for one that is not known, and as
// fault.Conflict for one that is heard: it would route on, by a table that
// nobody heeds.
func (c *Control) RetireGateway(ctx context.Context, name string) error {
	t := c.current()
	if t == nil {
		return c.notLeading()
	}
	if t.mirror.member(name).Version == 0 {
		return fault.New(fault.NotFound, "list the known ones by: fairlead gateways", "there is no gateway %q", name)
	}
	if slices.ContainsFunc(c.cfg.Gateways.States(), func(s service.GatewayState) bool { return s.Name == name && heard(s) }) {
		return fault.New(fault.Conflict, "end its process first (fairlead gateway)", "gateway %s is connected and routes requests", name)
	}
	return t.dismiss(ctx, name, "was retired")
}

func heard(s service.GatewayState) bool { return s.Connected && s.Silent < service.BehindAfter }

// enterAgain makes a gateway a member anew that was given up while it was not
// heard, and that goes on by the connection that it had: it routes. One that
// says goodbye is shown for a moment still, so it has to be there at two looks.
func (t *term) enterAgain(ctx context.Context) {
	seen := map[string]bool{}
	for _, s := range t.c.cfg.Gateways.States() {
		if !heard(s) || t.mirror.member(s.Name).Version != 0 {
			continue
		}
		if !t.unknown[s.Name] {
			seen[s.Name] = true
			continue
		}
		if _, err := t.c.AdmitGateway(ctx, s); err != nil && ctx.Err() == nil {
			t.c.log.Warn("cannot make a gateway a member again", "gateway", s.Name, "error", err)
		} else {
			t.c.log.Info("a gateway that had been given up is a member again", "gateway", s.Name)
		}
	}
	t.unknown = seen
}

func (c *Control) dismiss(ctx context.Context, name, why string) error {
	t := c.current()
	if t == nil {
		return c.notLeading()
	}
	return t.dismiss(ctx, name, why)
}

func (t *term) dismiss(ctx context.Context, name, why string) error {
	for {
		old := t.mirror.member(name)
		if old.Version == 0 {
			return nil
		}
		_, err := t.led.apply(ctx, drop(key(service.KindGateway, name), old.Version))
		if err == nil {
			t.c.log.Info("a gateway left", "gateway", name, "why", why)
			t.alarm("absent "+name, "")
			t.alarm("keep "+name, "")
			t.alarm("drift "+name, "")
			return nil
		}
		if !errors.Is(err, saga.ErrStale) {
			return fmt.Errorf("cannot end the membership of gateway %s: %w", name, err)
		}
	}
}

// watchMembers applies the rule of absence, and records what gateways
// acknowledge, late.
func (t *term) watchMembers(ctx context.Context) {
	last, recorded := time.Now(), time.Now()
	for ctx.Err() == nil {
		pause(ctx, memberEvery)
		now := time.Now()
		t.ageAbsent(ctx, now.Sub(last))
		t.heedGateways(ctx)
		t.enterAgain(ctx)
		t.noteLost()
		t.alarms()
		t.settleStore(ctx)
		last = now
		if now.Sub(recorded) >= recordEvery {
			t.recordHeld(ctx)
			recorded = now
		}
	}
}

// ageAbsent counts absence of a gateway only while more than half of the
// others are heard: silence of all is charged to this end of the line.
func (t *term) ageAbsent(ctx context.Context, passed time.Duration) {
	known := t.gateways()
	heard := 0
	for _, g := range known {
		if !g.Behind() {
			heard++
		}
	}
	for _, g := range known {
		switch {
		case !g.Behind():
			delete(t.absent, g.Name)
			t.alarm("absent "+g.Name, "")
			continue
		case 2*heard > len(known)-1:
			t.absent[g.Name] += passed
		}
		t.alarm("absent "+g.Name, fmt.Sprintf("gateway %s is not heard; what it may route to stays served until it is heard again or retired", g.Name))
		if t.absent[g.Name] < absenceRule {
			continue
		}
		if err := t.dismiss(ctx, g.Name, "has been absent for an hour while others were heard"); err != nil {
			if ctx.Err() == nil {
				t.c.log.Warn("cannot end a membership", "error", err)
			}
			continue
		}
		delete(t.absent, g.Name)
	}
}

// recordHeld writes down what gateways have acknowledged since.
func (t *term) recordHeld(ctx context.Context) {
	for _, g := range t.gateways() {
		old := t.mirror.member(g.Name)
		if g.State == nil || old.Version == 0 || g.State.Serves.Zero() {
			continue
		}
		next := old.Value
		next.Serves, next.Keeps = g.State.Serves, g.State.Keeps
		if next == old.Value {
			continue
		}
		if _, err := t.led.apply(ctx, put(key(service.KindGateway, g.Name), old.Version, next)); err != nil && ctx.Err() == nil {
			t.c.log.Warn("cannot record what a gateway holds", "gateway", g.Name, "error", err)
		}
	}
}
