package gatewaytest

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// World is what the suite runs against: gateways, and controls that come and
// go one after the other, never two at a time.
type World interface {
	// Control starts a control that every gateway follows as soon as it can.
	Control(cfg PortConfig) Control
	// Gateway starts a gateway with an empty disk.
	Gateway(name string) Subject
	// Close ends everything that was started.
	Close()
}

// Control is a port that can die.
type Control interface {
	Port
	Close()
}

// Subject is one gateway under test; *Gateway is one.
type Subject interface {
	Table() *view.Table
	Stop()
	Start()
	Cut()
	Heal()
	Tamper(service string, edit func(view.Route) view.Route) // called while it is stopped
	FailKeeping(err error)                                   // its text need not be the one that is reported
	Refuse(service, reason string)
	Goodbye(ctx context.Context) error
}

// Patience bounds how long the suite waits for what must come.
const Patience = 20 * time.Second

// Run checks that the worlds that open makes keep every promise of a port to gateways.
func Run(t *testing.T, open func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"ATableOfferedBeforeAGatewayConnectsIsServedAndKept", offeredBefore},
		{"ATableOfferedWhileAGatewayFollowsIsServedAndKept", offeredWhile},
		{"NothingIsSentBeforeAdmission", admission},
		{"TheNewestOfManyOffersIsServed", coalesced},
		{"AStoppedGatewayStaysKnownAndServesFromItsDiskWhenStarted", restarted},
		{"ASilentGatewayStaysKnownAndItsSilenceGrows", silent},
		{"ACutOffGatewayDelaysNoOther", notDelayed},
		{"ANewLeaderOfTheSameContentIsAcknowledgedByItsOwnVersion", newLeader},
		{"AnOlderEpochIsNotObeyedAndIsShownTheHigherOne", olderEpoch},
		{"ATableThatCannotBeKeptIsServedAndSaidNotToBeKept", notKept},
		{"ARefusedEntryIsNamedAndTheRestIsApplied", refused},
		{"AnEmptyTableOfAnotherIncarnationEmptiesNothing", emptied},
		{"OtherContentUnderATablesNumberIsNoticedAndReplaced", tampered},
		{"AGoodbyeEndsTheMembershipOnceItWasTaken", goodbye},
		{"WhatIsAcknowledgedAsServedIsWhatIsRoutedBy", acknowledged},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t)
			defer w.Close()
			c.test(&suite{T: t, World: w})
		})
	}
}

type suite struct {
	*testing.T
	World
}

// Await waits until the states of a port are as they must be.
func Await(t *testing.T, p Port, what string, ok func(states map[string]service.GatewayState) bool) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	look := time.NewTicker(20 * time.Millisecond) // silence that grows is no change
	defer look.Stop()
	for {
		changed := p.Changed()
		states := map[string]service.GatewayState{} // :: gateway name → state
		for _, g := range p.States() {
			states[g.Name] = g
		}
		if ok(states) {
			return
		}
		select {
		case <-changed:
		case <-look.C:
		case <-deadline.C:
			t.Fatalf("waited in vain until %s: %+v", what, p.States())
		}
	}
}

// settled waits until g serves and keeps v.
func (s *suite) settled(p Port, g string, v view.Version) {
	s.Helper()
	Await(s.T, p, g+" serves and keeps "+v.String(), func(states map[string]service.GatewayState) bool {
		return states[g].Serves == v && states[g].Keeps == v && states[g].Connected
	})
}

func (s *suite) routes(g Subject, service, revision string) {
	s.Helper()
	r, ok := g.Table().Route(service)
	if !ok || len(r.Splits) != 1 || r.Splits[0].Revision != revision {
		s.Fatalf("service %s is routed by %+v (%v), want revision %s", service, r, ok, revision)
	}
}

// leader makes tables of one epoch.
type leader view.Epoch

func term(incarnation string, n uint64) leader {
	return leader{Incarnation: incarnation, Number: n, Nonce: "nonce"}
}

func (l leader) admit(context.Context, service.GatewayState) (view.Epoch, error) {
	return view.Epoch(l), nil
}

// table has each service at a revision: service, revision, service, revision.
func (l leader) table(counter uint64, pairs ...string) *view.Table {
	var routes []view.Route
	for i := 0; i < len(pairs); i += 2 {
		routes = append(routes, view.Route{
			Service: pairs[i], Sequence: counter, Hosts: []string{pairs[i] + ".localhost"},
			Splits: []view.Split{{Revision: pairs[i+1], Percent: 100, Group: pairs[i+1], Allowed: []string{pairs[i+1]}}},
		})
	}
	return view.NewTable(view.Version{Incarnation: l.Incarnation, Epoch: l.Number, Counter: counter}, view.Epoch(l), routes)
}
