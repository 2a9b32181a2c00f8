package main

// Files and packages of the rules that came later.
const (
	worldGo   = "internal/control/world.go"
	leaveGo   = "internal/control/leave.go"
	termGo    = "internal/control/term.go"
	retireGo  = "internal/control/retire.go"
	holdGo    = "internal/explain/hold.go"
	seenGo    = "internal/surface/httpapi/seen.go"
	statusGo  = "internal/surface/httpapi/status.go"
	drainedGo = "internal/host/retire.go"
	endGo     = "internal/host/gatewayend.go"
	creditsGo = "internal/host/credits.go"
	balanceGo = "internal/host/balance.go"
	bodyGo    = "internal/gateway/body.go"
	paceGo    = "internal/gateway/pace.go"

	inHost    = "./internal/host"
	inGateway = "./internal/gateway"
	inAPI     = "./internal/surface/httpapi"
	inExplain = "./internal/explain"
)

// absences are the rules about who is not heard.
func absences() []mutant {
	return []mutant{
		{
			"a host that gateways hear keeps what it runs", worldGo,
			`w.Gone[h.Name] = min(h.Silent, time.Since(t.began)) >= hostGone && w.Polls[h.Name] == ""`, "w.Gone[h.Name] = min(h.Silent, time.Since(t.began)) >= hostGone", inControl, "TestAHostThatIsCutOffFromControlAloneKeepsWhatItRuns",
		},
		{
			"no group is published that no live instance polls", publishGo,
			`if rev := s.Unpolled(plan, j.world()); rev != "" {`, "if rev := s.Unpolled(plan, j.world()); false {", inControl, "TestADeployIsNotPublishedWhenWhatWasReadyHasEnded",
		},
		{
			"routes are repaired held while nothing could answer", repairGo,
			"if s.Unpolled(want, w) != \"\" {\n\t\treturn Held(want)", "if false {\n\t\treturn Held(want)", inControl, "TestRoutesAreRepairedHeldWhileNothingCouldAnswer",
		},
		{
			"a gateway that is connected is not retired", membersGo,
			"return s.Name == name && heard(s) }", "return false }", inControl, "TestAGatewayThatIsConnectedIsNotRetired",
		},
		{
			"a retired gateway that goes on is a member again", membersGo,
			"t.enterAgain(ctx)\n", "", inControl, "TestAGatewayThatWasRetiredWhileItSleptIsAMemberAgainWhenItWakes",
		},
		{
			"a host that is connected is not retired", retireGo,
			"if h.Connected {", "if false {", inControl, "TestAHostThatIsRetiredIsWaitedForNoMoreAndWhatItRanIsPlacedElsewhere",
		},
		{
			"a host is retired only when its lease has ended", retireGo,
			"if left := hostGone - silent; left > 0 {", "if left := hostGone - silent; false {", inControl, "TestAHostThatIsRetiredIsWaitedForNoMoreAndWhatItRanIsPlacedElsewhere",
		},
		{
			"a host that a gateway hears is not retired", retireGo,
			`if g := t.clocks.polling(t.gateways())[name]; g != "" {`, "if g := t.clocks.polling(t.gateways())[name]; false {", inControl, "TestAHostThatAGatewayHearsIsNotRetired",
		},
		{
			"an exclusive handover does not begin while a host of the old one is heard by gateways only", exclusiveGo,
			"if slots := rev.OnCutOff(w); len(slots) > 0 {", "if slots := rev.OnCutOff(w); false {", inControl, "TestWhatCannotRunBesideAnotherWaitsForAHostThatOnlyAGatewayHears",
		},
		{
			"an exclusive handover does not begin while a host that may run the old one is away", exclusiveGo,
			"if i.Revision != name && i.State != service.InstanceExited &&", "if false && i.State != service.InstanceExited &&", inControl, "TestAnExclusiveHandoverDoesNotBeginWhileAHostThatMayRunTheOldOneIsAwayAndNamesIt",
		},
		{
			"an exclusive handover does not wait for a host that is lost", exclusiveGo,
			"if w.Gone[p.Host] {", "if false {", inControl, "TestAnExclusiveHandoverWhoseHostIsLostGoesBackAsSoonAsItsLeaseHasEnded",
		},
		{
			"nothing is waited for on a host that is lost", commandsGo,
			"if world.Lost(s.Host) {", "if false {", inControl, "TestAnExclusiveHandoverIsUndoneAtOnceWhenTheLostHostOfTheNewOneIsRetired",
		},
		{
			"what waits to be undone is tried at once when a lost host is back or given up", membersGo,
			"if t.lost[name] && !now[name] {", "if t.lost[name] && now[name] && name == \"\" {", inControl, "TestAnExclusiveHandoverIsUndoneAtOnceWhenTheLostHostOfTheNewOneIsRetired",
		},
		{
			"at most five drained revisions live on", drainedGo,
			"return len(later) >= maxDrained", "return false", inHost, "TestAtMostFiveDrainedRevisionsLiveOnForWhatIsOpen",
		},
		{
			"what a new leader finds published is offered only when it is decided", termGo,
			"if !t.doubt.IsZero() && time.Since(t.doubt) < doubtFor && t.inDoubt() {", "if false {", inControl, "TestRoutesThatDifferFromTheCatalogAreNotOfferedBeforeTheyAreDecided",
		},
		{
			"what cannot be decided keeps no other service waiting", termGo,
			"&& time.Since(t.doubt) < doubtFor &&", "&&", inControl, "TestWhatCannotBeDecidedKeepsNoOtherServiceWaiting",
		},
	}
}

// credits are the rules about what a gateway may spend, and how long.
func credits() []mutant {
	return []mutant{
		{
			"the credits of a gateway whose process has ended return", endGo,
			"for wait := reclaimFirst; h.reclaim(name, p); wait", "for wait := reclaimFirst; false; wait", inHost, "TestTheCreditsOfAGatewayWhoseProcessHasEndedReturnOnceItsConnectionsAreClosed",
		},
		{
			"they return only when the instance has closed what was open", endGo,
			"open[id] = halfClosed(addr)", "open[id] = !addr.IsValid()", inHost, "TestTheCreditsOfAGatewayWhoseProcessHasEndedReturnOnceItsConnectionsAreClosed",
		},
		{
			"a process of another machine is taken for nobody's", endGo,
			"p.GetBoot() != h.boot || ", "", inHost, "TestAProcessOfAnotherMachineOrNamespaceIsNotTakenForAGateways",
		},
		{
			"a new process of a gateway takes the place of the one before", endGo,
			"h.letGatewayGoLocked(name)\n\tif p == nil", "if p == nil || h.processes[name] != nil", inHost, "TestANewProcessOfAGatewayIsNotChargedWithTheEndOfTheOneBefore",
		},
		{
			"what gateways have that are not heard is told", creditsGo,
			"out[name] = n\n", "_ = n\n", inHost, "TestTheCreditsOfAGatewayWhoseProcessHasEndedReturnOnceItsConnectionsAreClosed",
		},
		{
			"the last idle credit follows a queue", balanceGo,
			"return (has + 1) / 2", "return has / 2", inHost, "TestTheLastIdleCreditFollowsAQueueAndComesBackWhenItIsWanted",
		},
		{
			"and does not go back while that stands", balanceGo,
			"case !queue:\n", "case !queue && owned > 0:\n", inHost, "TestTheLastIdleCreditFollowsAQueueAndComesBackWhenItIsWanted",
		},
		{
			"a body that pauses ends its request", bodyGo,
			"b.err = errSlow\n", "return\n", inGateway, "TestABodyThatPausesIsAnswered408AndItsCreditIsBack",
		},
		{
			"a body that trickles ends its request", paceGo,
			"return min(p.timeout, p.timeout+atLeast(p.came)-p.waited)", "return p.timeout", inGateway, "TestABodyThatTricklesIsAnswered408AndItsCreditIsBack",
		},
		{
			"what is answered already may pause", bodyGo,
			"&& !b.quick && !b.stopped", "&& !b.stopped", inGateway, "TestABodyMayPauseOnceItIsAnswered",
		},
	}
}

// shown are the rules about what a person is told.
func shown() []mutant {
	return []mutant{
		{
			"an instance of a host that nobody hears is not shown as live", seenGo,
			"out.State = stateUnheard", "_ = stateUnheard", inAPI, "TestAnInstanceOfAHostThatIsNotHeardIsNotShownAsLive",
		},
		{
			"a gateway that is not heard is not counted", seenGo,
			"case g.Heard():\n\t\t\tout.Acknowledged++", "case true:\n\t\t\tout.Acknowledged++", inAPI, "TestAGatewayThatIsNotHeardIsNotCountedAndNamedWithItsSilence",
		},
		{
			"the time of the next attempt is the leader's own", statusGo,
			"if at := a.Leader.RetryAt(r.ID); r.Open() &&", "if at := a.Leader.RetryAt(r.ID); false &&", inAPI, "TestADeploymentThatWaitsSaysWhatFailedAndUntilWhen",
		},
		{
			"that requests are held is explained", holdGo,
			"if !e.s.Routes.Value.Held() {", "if true {", inExplain, "TestAnExclusiveHandoverHoldsRequests",
		},
		{
			"the alarm of a store older than the world ends", membersGo,
			`t.alarm(alarmEpoch, "")`, "_ = words", inControl, "TestTheAlarmOfAStoreOlderThanTheWorldEndsWhenEveryGatewayFollowsAndTheHistoryTells",
		},
		{
			"but not before every gateway follows", membersGo,
			"return !g.Heard() || g.State.Serves.Epoch != e.Number || g.HoldsUnknown(w)", "return e.Number == 0 && g.HoldsUnknown(w)", inControl, "TestTheAlarmOfAStoreOlderThanTheWorldEndsWhenEveryGatewayFollowsAndTheHistoryTells",
		},
		{
			"what leaves when a term ends raises no alarm", membersGo,
			"case <-t.over:", "case <-chan struct{}(nil):", inControl, "TestAnOrderlyEndRaisesNoAlarm",
		},
	}
}

// leaving are the rules about hosts that end in order or are drained, and about
// where instances are placed anew.
func leaving() []mutant {
	return []mutant{
		{
			"what a host runs that leaves is served by others", planGo,
			"if drains := r.Value.OnDraining(w); len(drains) > 0 &&", "if drains := r.Value.OnDraining(w); false &&", inControl, "TestAHostThatLeavesIsLetGoWhenOthersServeWhatItRanAndCapacityComesFirst",
		},
		{
			"a host that leaves is let go only when nothing of it runs", leaveGo,
			"if slots == 0 && running == 0 {", "if slots == 0 {", inControl, "TestAHostThatLeavesIsLetGoWhenOthersServeWhatItRanAndCapacityComesFirst",
		},
		{
			"where no other takes what it runs a host that leaves does not wait", leaveGo,
			"return service.Release{Reason: err.Error()}, true", "return service.Release{}, false", inControl, "TestAHostThatLeavesWhereNoOtherCanTakeWhatItRunsIsToldSoAndDoesNotWait",
		},
		{
			"what cannot run beside another stops before it is started elsewhere", scaleGo,
			"case rev.Value.Exclusive() && len(", "case false && len(", inControl, "TestWhatCannotRunBesideAnotherLeavesAHostUnderAHoldAndStopsFirst",
		},
		{
			"a host's drain outlives its process and the leader", membersGo,
			"h.Draining = old.Value.Draining", "h.Draining = false", inControl, "TestAHostThatIsToBeDrainedIsEmptiedAndGetsNothingUntilItIsUndrainedByAnyLeader",
		},
		{
			"what was placed on a host that is lost too is placed once more", scaleGo,
			"Stands: j.placeStands, ", "", inControl, "TestWhatWasPlacedAnewOnAHostThatIsLostTooIsPlacedOnceMore",
		},
		{
			"a host that has no room for what is to be installed is passed over", deployGo,
			"if !unsure(err) && !j.refused(placed) ||", "if !unsure(err) ||", inControl, "TestAHostThatHasNoRoomForWhatIsToBeInstalledIsPassedOver",
		},
		{
			"a restart places what has gathered anew", scaleGo,
			"if err := j.spreadOut(ctx, r, rev.Value.Name, round); err != nil {", "if err := error(nil); err != nil {", inControl, "TestARestartPlacesWhatHasGatheredAnewAndCapacityComesFirst",
		},
	}
}
