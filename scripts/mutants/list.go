package main

// Files that hold the rules.
const (
	deployGo    = "internal/control/deploy.go"
	undeployGo  = "internal/control/undeploy.go"
	publishGo   = "internal/control/publish.go"
	exclusiveGo = "internal/control/exclusive.go"
	collectGo   = "internal/control/collect.go"
	teardownGo  = "internal/control/teardown.go"
	trafficGo   = "internal/control/traffic.go"
	jobGo       = "internal/control/job.go"
	passGo      = "internal/control/pass.go"
	membersGo   = "internal/control/members.go"
	commandsGo  = "internal/control/commands.go"
	scaleGo     = "internal/control/scale.go"
	planGo      = "internal/service/plan.go"
	reachGo     = "internal/service/reach.go"
	repairGo    = "internal/service/repair.go"
	warmGo      = "internal/service/warm.go"
	shareGo     = "internal/service/traffic.go"
	engineGo    = "internal/saga/engine.go"
	failGo      = "internal/saga/fail.go"
	leaseGo     = "internal/lease/rules.go"

	inControl = "./internal/control"
	inService = "./internal/service"
	inSaga    = "./internal/saga"
	inLease   = "./internal/lease"
	inPoints  = "./internal/control/crashpoints"
)

// also is what has to go with a rule that stands in two places.
func (m mutant) also() []mutant {
	switch m.rule {
	case "a warm revision is referred to":
		return []mutant{{m.rule, "internal/service/snapshot.go", `return c.Referenced(revision) || revision != "" && c.Warm == revision`, "return c.Referenced(revision)", m.pkg, m.test}}
	case "a resume assigns what hosts have lost":
		return []mutant{{m.rule, deployGo, "return len(j.subject(r).Value.Lost(j.world())) == 0, nil", "return true, nil", m.pkg, m.test}}
	case "a hold is acknowledged before what runs is stopped":
		return []mutant{{m.rule, teardownGo, "return !reached, settleEvery, nil", "return reached || !reached, settleEvery, nil", m.pkg, m.test}}
	}
	return nil
}

// mutants take one rule each out of the code.
func mutants() []mutant {
	var all []mutant
	for _, part := range [][]mutant{attempts(), gateways(), stops(), intents(), passes(), verbs(), handovers(), absences(), credits(), shown(), leaving(), beliefs(), pickers()} {
		all = append(all, part...)
	}
	return all
}

func attempts() []mutant {
	return []mutant{
		{
			"a revision of the same digest whose saga is open is resumed, never minted again", planGo,
			"if same && (r.Open() ||", "if same && (false ||", inService, "TestPlanDecidesWhatIsNext",
		},
		{
			"an intent that is met changes nothing", planGo,
			"if latest := s.Revision(s.LatestAfter()); latest.Exists() && s.wants(latest.Value) {", "if latest := s.Revision(s.LatestAfter()); false && s.wants(latest.Value) {", inControl, "TestTheSameIntentAgainIsMetAndMintsNothing",
		},
		{
			"one worker does everything to a service", passGo,
			"t.workers[name] = true\n", "", inControl, "TestADeployTakesAtMostEightCommits",
		},
		{
			"a resume does again what does not stand", engineGo,
			"if !stands {", "if false && !stands {", inSaga, "TestAResumeDoesAgainWhatNoLongerStands",
		},
		{
			"a resume assigns what hosts have lost", undeployGo,
			"if lost := rev.Value.Lost(j.world()); len(lost) > 0 {", "if lost := rev.Value.Lost(j.world()); false {", inControl, "TestAResumedDeployAssignsAgainWhatItsHostLost",
		},
		{
			"finalize publishes what it is about to record, unless this attempt already has", deployGo,
			"if !service.SamePlan(s.Routes.Value.Plan, plan) {\n\t\tif err := j.publish", "if false {\n\t\tif err := j.publish", inControl, "TestFinalizePublishesWhatItIsAboutToRecord",
		},
		{
			"ready is live for 3 s", commandsGo,
			"w := newWatch(j.c.cfg.Dwell, rev, round)", "w := newWatch(0, rev, round)", inControl, "TestADeployServesAfterThreeSecondsOfReadiness",
		},
		{
			"ready is eligible by the service's contract", deployGo,
			"j.judged(rev, rev.Round, false), limit)", "newWatch(j.c.cfg.Dwell, rev, rev.Round), limit)", inControl, "TestADeployWaitsForTheVerdictAndSaysWhatItSays",
		},
		{
			"what is added is ready before a scale goes on", scaleGo,
			"toBeReady(rev.Value, w), j.judged(rev.Value, 0, true)", "toBeReady(rev.Value, w), newWatch(j.c.cfg.Dwell, rev.Value, 0)", inControl, "TestAScaleUpWaitsForWhoIsNewAndNotForWhoIsIll",
		},
		{
			"readiness is never latched", commandsGo,
			"delete(w.since, s.ID)\n\t\t\tcontinue", "if _, ok := w.since[s.ID]; ok {\n\t\t\t\tn++\n\t\t\t}\n\t\t\tcontinue", inControl, "TestAReleaseThatExitsSoonAfterItsStartIsNeverPromoted",
		},
		{
			"an attempt has a deadline", deployGo,
			"limit := max(rev.Template.ReadyDeadline()-time.Since(j.began), 0)", "limit := 100 * time.Hour", inControl, "TestADeployThatNeverListensSaysWhatItListensOn",
		},
		{
			"what failed is tried again after 30 s, then with growing back-off", failGo,
			"r.Record.Backoff = max(next, first)", "r.Record.Backoff = max(min(next, first), first)", inSaga, "TestAFailedAttemptIsUndoneAndWaitsLongerEachTime",
		},
		{
			"a step is recorded before the next begins", engineGo,
			"if d.Steps[r.step].Quiet && len(r.staged) == 0 && r.Record.State == Running {", "if r.Record.State == Running {", inSaga, "TestEachStepIsRecordedBeforeTheNextBegins",
		},
	}
}

func gateways() []mutant {
	return []mutant{
		{
			"a gateway is entered before its first table is sent", membersGo,
			"if old.Version != 0 && next == old.Value {\n\t\t\treturn t.led.Epoch(), nil\n\t\t}\n\t\t_, err := t.led.apply(ctx, put(key(service.KindGateway, g.Name), old.Version, next))", "if old.Version != 0 && next == old.Value {\n\t\t\treturn t.led.Epoch(), nil\n\t\t}\n\t\tvar err error", inControl, "TestCollectionNeverTakesWhatALaggingGatewayMayStillRouteTo",
		},
		{
			"absence counts only while more than half of the others are heard", membersGo,
			"case 2*heard > len(known)-1:", "case true:", inControl, "TestAGatewayAbsentForAnHourIsForgottenWhileMostOthersAreHeard",
		},
		{
			"routes wait for every known gateway that is not behind", reachGo,
			"s.Done = len(s.Waiting) == 0 && len(s.Acknowledged) > 0", "s.Done = len(s.Acknowledged) > 0", inService, "TestSettledAsksEachKnownGatewayAnew",
		},
		{
			"at least one gateway must have acknowledged", reachGo,
			"s.Done = len(s.Waiting) == 0 && len(s.Acknowledged) > 0", "s.Done = len(s.Waiting) == 0", inControl, "TestWithoutAGatewayTheRoutesStepFailsAtItsDeadlineAndSaysSo",
		},
		{
			"a gateway silent for 5 s is behind, and is not waited for", reachGo,
			"func (g KnownGateway) Behind() bool { return g.Silent >= BehindAfter }", "func (g KnownGateway) Behind() bool { return false }", inPoints, "TestCrashpoints/deploy_with_a_gateway_cut_off",
		},
		{
			"what a gateway may still route to by an earlier plan is reached", reachGo,
			"for _, p := range s.heldFrom(floor) {", "for _, p := range s.heldFrom(floor)[:0] {", inService, "TestMayRouteByCoversEveryTableThatAGatewayMayHold",
		},
		{
			"what a gateway keeps on its disk counts as what it serves", reachGo,
			"for _, v := range []view.Version{serves, keeps} {", "keeps = serves\n\tfor _, v := range []view.Version{serves, keeps} {", inControl, "TestARevisionStaysWhileAGatewayKeepsItsRoutesOnDiskOnly",
		},
		{
			"a gateway that refuses an entry routes by an earlier one", reachGo,
			`if g.State != nil && g.State.Refused[service] != "" {`, "if false {", inService, "TestWhatAGatewayHeldBeforeItRefusedAnEntryStaysReached",
		},
		{
			"a refused route fails the step", publishGo,
			"if len(last.Refused) > 0 {", "if false {", inControl, "TestARefusedRouteFailsTheStepAndNamesIt",
		},
		{
			"earlier plans are kept until no gateway can hold them", reachGo,
			"next.Earlier = append([]PublishedPlan{current}, s.kept(w)...)", "next.Earlier = append([]PublishedPlan{current}, s.kept(w)...)[:0]", inControl, "TestCollectionNeverTakesWhatALaggingGatewayMayStillRouteTo",
		},
		{
			"a table that the store never published reaches everything", reachGo,
			"return Reach{All: true, by: g.Name, callers: s.callers(w)}", "continue", inService, "TestATableThatThisStoreNeverPublishedReachesEverything",
		},
	}
}

func stops() []mutant {
	return []mutant{
		{
			"a failed deploy puts the earlier routes back", undeployGo,
			"return j.putBack(ctx, reason)\n}\n\n// stopRevision", "return nil\n}\n\n// stopRevision", inControl, "TestAFinalizeThatFailsAfterPublicationLeavesAllOnTheOldRevisionAndIsResumed",
		},
		{
			"the new revision is stopped only once the put-back is acknowledged", publishGo,
			"return len(last.Waiting) == 0, settleEvery, nil", "return true, settleEvery, nil", inControl, "TestAFailedDeploySaysSoOnlyOnceTheGatewaysHaveTheEarlierRoutes",
		},
		{
			"the gateways are asked before a failed revision is stopped", undeployGo,
			"if why, reached := s.MayRoute(j.world()).Revision(name); reached {", "if why, reached := s.MayRoute(j.world()).Revision(name); false && reached {", inControl, "TestAFailedDeployKeepsRunningWhatACutOffGatewayRoutesTo",
		},
		{
			"the gateways are asked before a collection is begun", repairGo,
			"if _, reached := reach.Revision(r.Name); reached {", "if _, reached := reach.Revision(r.Name); false && reached {", inService, "TestPlanDecidesWhatIsNext",
		},
		{
			"the gateways are asked before a revision gives way, or is deleted", teardownGo,
			"return !reached, settleEvery, nil", "return reached || !reached, settleEvery, nil", inControl, "TestADeletionWaitsForAGatewayThatKeepsTheRoutesOnItsDisk",
		},
		{
			"a collector waits 10 s after the last reference", repairGo,
			`s.KeptBy(r) != "" || w.Unreferenced(r.Name) < CollectAfter {`, `s.KeptBy(r) != "" {`, inService, "TestPlanDecidesWhatIsNext",
		},
		{
			"a warm revision is referred to", repairGo,
			"if s.Catalog.Value.Warm == r.Name {", "if s.Catalog.Value.Warm == r.Name && false {", inControl, "TestOnlyTheOneRevisionBeforeIsKeptWarmAndOnlyForItsWindow",
		},
		{
			"a warm revision is kept only for its window", warmGo,
			`if c.Warm == "" || !w.Cooled(c.Warm) {`, "if true {", inControl, "TestOnlyTheOneRevisionBeforeIsKeptWarmAndOnlyForItsWindow",
		},
		{
			"the collector of what is pending spares what is asked for today", repairGo,
			`if pending && s.wants(r) &&`, `if false && pending && s.wants(r) &&`, inService, "TestWhatIsAskedForTodayIsKept",
		},
		{
			"what nobody asks for is found by its name and stopped", repairGo,
			"if strays := s.Strays(w); len(strays) > 0 {", "if strays := s.Strays(w); false {", inControl, "TestADeletedServicesProcessesOnAHostThatWasAwayAreStoppedOnItsReturn",
		},
		{
			"a removal is bound to the tombstone: a newer document survives", teardownGo,
			"if s.Desired.Exists() && !s.Desired.Value.Deleted {", "if false {", inControl, "TestADocumentWrittenDuringATeardownOfALongHistorySurvivesIt",
		},
		{
			"a deletion withdraws the routes before it stops", teardownGo,
			"if err := j.publish(ctx, r, view.Route{Service: j.service, Deleted: true}); err != nil {", "if err := j.publish(ctx, r, view.Route(s.Routes.Value.Plan)); err != nil {", inControl, "TestADeletedServiceIsGoneAndMadeAgainWithEveryStepRun",
		},
	}
}

func intents() []mutant {
	return []mutant{
		{
			"the later intent wins, at the next wait", jobGo,
			`if why := j.snapshot().Superseded(r); why != "" {`, `if why := j.snapshot().Superseded(r); false {`, inControl, "TestALaterIntentEndsAnAttemptWithinASecond",
		},
		{
			"abort ends what was asked for", jobGo,
			`if why := j.snapshot().AbortedBy(r); why != "" {`, `if why := j.snapshot().AbortedBy(r); false {`, inControl, "TestAbortEndsADeployAtItsNextWaitAndItIsNotTriedAgain",
		},
		{
			"what was aborted is not tried again", planGo,
			"r.State == saga.Failed && r.Generation <= d.Aborted", "false", inService, "TestPlanDecidesWhatIsNext",
		},
		{
			"a pause holds at the next step", jobGo,
			"func (j *job) hold(r saga.Record) string { return j.snapshot().HeldAt(r) }", `func (j *job) hold(saga.Record) string { return "" }`, inControl, "TestAPausedDeployHoldsAtItsNextStepSaysSoAndGoesOnWhenResumed",
		},
		{
			"a write that follows from a read is bound to the version read", "internal/control/led.go",
			"Checks: append(b.checks[:len(b.checks):len(b.checks)], lead)", "Checks: append(b.checks[:0:0], lead)", inControl, "TestWhatChangedBetweenReadAndWriteIsReadAgain",
		},
	}
}

func passes() []mutant {
	return []mutant{
		{
			"each pass compares what is published with the catalog", repairGo,
			"if s.Routes.Exists() && SamePlan(published, want) {", "if s.Routes.Exists() {", inControl, "TestRoutesEditedBehindTheControllersBackAreRepaired",
		},
		{
			"where the catalog's revision does not answer, what answers is kept and an operator named", repairGo,
			"switch answers := s.answers(want, w); {", "switch answers := s.answers(want, w) || true; {", inControl, "TestWhereTheCatalogsRevisionDoesNotAnswerWhatAnswersIsKeptAndAnOperatorNamed",
		},
		{
			"a service with a saga in flight is that one's alone", planGo,
			`return resume(doc, "it is in flight"), true`, "continue", inService, "TestPlanDecidesWhatIsNext",
		},
		{
			"one service's failure delays no other", passGo,
			"t.start(func() {\n\t\tseen := t.attend(ctx, name)", "t.mu.Unlock()\n\tdefer t.mu.Lock()\n\tfunc(f func()) { f() }(func() {\n\t\tseen := t.attend(ctx, name)", inControl, "TestAServiceThatIsNeverReadyDelaysNoOther",
		},
		{
			"a record that cannot be read stops nothing else, and is said", planGo,
			`if why := s.unreadable(); why != "" {`, `if why := s.unreadable(); false {`, inControl, "TestAnUnreadableRecordAmongTenStopsNothingElse",
		},
		{
			"a saga of a newer definition is parked", planGo,
			"if !r.Open() {\n\t\t\tcontinue\n\t\t}\n\t\tif why := w.Parked(r); why != \"\" {", "if !r.Open() {\n\t\t\tcontinue\n\t\t}\n\t\tif why := w.Parked(r); false {", inControl, "TestASagaOfANewerDefinitionIsParkedVisibly",
		},
		{
			"what a host has lost is assigned again", repairGo,
			"if lost := r.Value.Lost(w); len(lost) > 0 {", "if lost := r.Value.Lost(w); false {", inControl, "TestSlotsThatAHostLostAreAssignedAgain",
		},
		{
			"instances of a host that is gone are placed elsewhere", planGo,
			"if gone := r.Value.OnGone(w); len(gone) > 0 &&", "if gone := r.Value.OnGone(w); false &&", inControl, "TestInstancesOfAHostThatIsGoneArePlacedElsewhereAndDrainedOnItsReturn",
		},
	}
}

func verbs() []mutant {
	return []mutant{
		{
			"a verb that fails is put back, also after a publish that reported failure", trafficGo,
			"return j.putBack(ctx, reason)", "return nil", inPoints, "TestCrashpoints/rollback_to_a_warm_revision",
		},
		{
			"a verb publishes before it records", trafficGo,
			"if !service.SamePlan(s.Routes.Value.Plan, plan) {\n\t\treturn fmt", "if false && plan.Deleted {\n\t\treturn fmt", inControl, "TestAVerbRecordsOnlyWhatIsPublished",
		},
		{
			"capacity comes before traffic", trafficGo,
			"if j.bears(p) {\n\t\t\tcontinue", "if true {\n\t\t\tcontinue", inControl, "TestARollbackToACollectedRevisionStartsItBeforeTrafficIsMoved",
		},
		{
			"what is added is ready before the rest is stopped", scaleGo,
			"if err := j.awaitReady(ctx, r, toBeReady(rev.Value, w), j.judged(rev.Value, 0, true), rev.Value.Template.ReadyDeadline()); err != nil {", "if err := j.awaitReady(ctx, r, nil, j.judged(rev.Value, 0, true), rev.Value.Template.ReadyDeadline()); err != nil {", inControl, "TestAScaleGoesOnOnlyOnceWhatWasAddedIsReady",
		},
		{
			"what led the traffic before is kept warm", shareGo,
			"c.Warm, c.WarmUntil = before, now.Add(warm)", "_ = now", inControl, "TestARollbackToAWarmRevisionIsOneWriteBeforeTheGatewaysHaveIt",
		},
	}
}

func handovers() []mutant {
	return []mutant{
		{
			"a hold is acknowledged before what runs is stopped", exclusiveGo,
			"settlement, err := j.settle(ctx, r)\n\tif err != nil {\n\t\treturn err\n\t}\n\tif len(settlement.Behind) > 0 {", "settlement, err := service.Settlement{}, error(nil)\n\tif err != nil {\n\t\treturn err\n\t}\n\tif len(settlement.Behind) > 0 {", inControl, "TestAHoldIsAcknowledgedByEveryGatewayBeforeTheOldOneIsStopped",
		},
		{
			"requests are held before the old one is stopped", exclusiveGo,
			"if err := j.publish(ctx, r, service.Held(plan)); err != nil {", "if err := j.publish(ctx, r, plan); err != nil {", inControl, "TestAnExclusiveHandoverHoldsStopsTheOldAndOnlyThenStartsTheNew",
		},
		{
			"the new one is started only once the old one has stopped", exclusiveGo,
			"return j.stopOthers(ctx, r, name)\n}", "return nil\n}", inControl, "TestAnExclusiveHandoverHoldsStopsTheOldAndOnlyThenStartsTheNew",
		},
		{
			"an exclusive handover does not begin while a gateway is behind", exclusiveGo,
			"if behind := j.behind(); len(behind) > 0 {\n\t\treturn fmt.Errorf(\"the exclusive", "if behind := j.behind(); false {\n\t\treturn fmt.Errorf(\"the exclusive", inControl, "TestAnExclusiveHandoverDoesNotBeginWhileAGatewayIsBehindAndNamesIt",
		},
		{
			"an exclusive handover that fails starts the old one again", exclusiveGo,
			"if err := j.startLead(ctx, lead, reason); err != nil {", "if err := error(nil); err != nil {", inPoints, "TestCrashpoints/exclusive_deploy_that_is_never_ready",
		},
		{
			"what cannot run beside another gets all traffic or does not run", exclusiveGo,
			`if p.Revision != name && (p.Percent > 0 || p.Tag != "") {`, "if false {", inControl, "TestAnExclusiveRevisionThatWouldGetNoTrafficIsNotRunBesideTheOther",
		},
		{
			"two revisions that answer from one group are not both routed to", shareGo,
			"if other, taken := of[p.Group]; taken && other != p.Revision {", "if other, taken := of[p.Group]; false && taken && other != p.Revision {", inControl, "TestOneGroupNeverHasTwoRevisionsThatAreBothRoutedTo",
		},
		{
			"a group that is held is leased from by nobody", leaseGo,
			"return !r.Hold && !slices", "return !slices", inLease, "TestAGroupThatIsHeldIsLeasedFromByNobodyAndWhatComesWaits",
		},
		{
			"a lease goes only to a revision that the table allows", leaseGo,
			"return !s.Allows(revision, minted)", "return false", inLease, "TestTheRoomKeepsItsPromisesUnderAnyInput",
		},
		{
			"the new revision starts and becomes ready before the right to lease moves", deployGo,
			`{Name: "ready", Do: j.ready,`, `{Name: "ready", Do: func(context.Context, *saga.Run) error { return nil },`, inPoints, "TestCrashpoints/deploy",
		},
	}
}
