package main

// Files and packages of the rules about what is believed of instances.
const (
	assembleGo    = "view/assemble.go"
	fractionGo    = "view/fraction.go"
	heldGo        = "view/held.go"
	heldSvcGo     = "view/heldservice.go"
	carryGo       = "view/carry.go"
	chargeGo      = "internal/evidence/charge.go"
	sealGo        = "internal/evidence/seal.go"
	outcomesGo    = "internal/evidence/outcomes.go"
	watchGo       = "internal/evidence/witnesses.go"
	lookGo        = "internal/eligibility/look.go"
	syncGo        = "internal/registry/sync.go"
	evaluateGo    = "internal/evaluate/evaluate.go"
	poorGo        = "internal/service/poor.go"
	guardGo       = "internal/discovery/guard.go"
	governorGo    = "internal/discovery/governance.go"
	respondGo     = "internal/gateway/respond.go"
	inView        = "./view"
	inEvidence    = "./internal/evidence"
	inRegistry    = "./internal/registry"
	inEvaluate    = "./internal/evaluate"
	inDiscovery   = "./internal/discovery"
	inEligibility = "./internal/eligibility"
)

// beliefs are the rules about what is believed of instances, and what callers
// are told of it.
func beliefs() []mutant {
	return []mutant{
		{
			"served in one group wins over out in another", assembleGo,
			"if weights[i] == absent && members[i].withdrawn() {", "if members[i].withdrawn() {", inView, "TestServedInOneGroupWinsOverOutInAnother",
		},
		{
			"what was told is acknowledged, whatever of it is served", heldGo,
			"return h.told\n", "return h.serving\n", inView, "TestWhatIsAcknowledgedIsWhatWasToldAlsoWhereAnEntryIsNotServed",
		},
		{
			"of a service, what was told is acknowledged", heldSvcGo,
			"return h.told\n", "return h.serving\n", inView, "TestOfAServiceWhatIsAcknowledgedIsWhatWasToldAndTheNextChangeAppliesToIt",
		},
		{
			"a guard that does not know who was in rotation withdraws nobody", fractionGo,
			"was.served = idsOf(members, counted)", "was.served = map[string]bool{}", inView, "TestAGuardThatHoldsAndDoesNotKnowWhoWasInRotationWithdrawsNobody",
		},
		{
			"a person's decision ends with its trip", fractionGo,
			"return memory{served: idsOf(members, in), pooled: a.pool(g, members)}", "return memory{served: idsOf(members, in), decision: Accepted}", inView, "TestAPersonDecidesAboutAGuardThatHoldsAndIsAskedAgainAtTheNextTrip",
		},
		{
			"what comes after an early row is of the next second", sealGo,
			"if o.early == in.tick { // what came after is of the next second", "if false {", inEvidence, "TestARowThatIsSealedEarlyIsOfItsSecondAndWhatComesAfterIsOfTheNext",
		},
		{
			"a row that was folded early is not folded again", evaluateGo,
			"if x.state.Judged >= e.now {", "if x.state.Judged > e.now {", inEvaluate, "TestWhatIsHardOfASecondGivesTheSameStatesEarlyOrWithTheWholeSecond",
		},
		{
			"volume buys no weight", outcomesGo,
			"n = Cap\n", "failed = row.Failed\n", inEvidence, "TestAReportersVolumeBuysNoWeight",
		},
		{
			"a look at what is not one's own is discarded", watchGo,
			"case !slices.Contains(o.Probers, prober) && !slices.Contains(o.Before, prober):", "case false:", inDiscovery, "TestAProbersLookAtWhatIsNotItsOwnIsDiscardedAndCounted",
		},
		{
			"what probers are refused does not count where callers suffice and succeed", lookGo,
			"return !l.callersContent(c) ||", "return true ||", inDiscovery, "TestProbersOfFewTargetsBehindAClosedWayRemoveNobodyWhoseCallersSuffice",
		},
		{
			"a failure now and then confirms no refusal", lookGo,
			"return !l.callersContent(c) ||", "return !l.callersContent(c) || s.Outcomes.LastBad >= s.Probes.Refused-1 ||", inDiscovery, "TestProbersOfFewTargetsBehindAClosedWayRemoveNobodyWhoseCallersSuffice",
		},
		{
			"callers whose last word was a failure confirm a refusal", lookGo,
			" || s.hushed()\n", "\n", inEligibility, "TestTheFoldDoesWhatItsScriptsSay/callers-who-end-with-a-failure-confirm-a-closed-port",
		},
		{
			"a listing with far less than before is held", syncGo,
			"if hold && x.Missing < confirmed {", "if false {", inRegistry, "TestNoSingleAnswerEmptiesAService",
		},
		{
			"who is out of rotation is the first to be stopped", poorGo,
			"if s := r.Slots[i]; r.out(s, w) {", "if s := r.Slots[i]; false {", inService, "TestWhoIsOutOfRotationIsTheFirstToBeStopped",
		},
		{
			"callers of a zone that fail everywhere are charged", chargeGo,
			"if !g.everywhere(in.tick) {", "if true {", inEvaluate, "TestOneCallerZoneThatFailsEverywhereIsChargedToThoseCallers",
		},
		{
			"callers are charged only where others do well at the same instances", chargeGo,
			"&& 2*sum.spared >= sum.failing &&", "&&", inEvaluate, "TestWhatFailsForAllCallersOrAtOneInstanceIsChargedToNoZone",
		},
		{
			"a refusal that may be the callers' doing waits for the end of its second", sealGo,
			"|| o.theirs(refusals, in.tick) {", "|| o.theirs(refusals, in.tick) && false {", inEvaluate, "TestAZoneOfCallersThatIsRefusedEverywhereTakesNobodyOutBeforeItsSecondIsOver",
		},
		{
			"a person's decision goes with its zone", carryGo,
			"if a.moved(g, members) {", "if false {", inView, "TestWhatAPersonAcceptedGoesWithAZoneIntoThePoolOfSmallOnesAndOut",
		},
		{
			"a person's decision is about whom it was taken about", carryGo,
			"if asks {\n", "if false {\n", inView, "TestWhatAPersonAcceptedGoesWithAZoneIntoThePoolOfSmallOnesAndOut",
		},
		{
			"a restart replaces the worst first", scaleGo,
			"left = rev.Value.WorstFirst(left, j.world())", "left = left[:]", inControl, "TestARestartBeginsWithWhoIsOutOfRotationAndEndsWithWhoDoesWell",
		},
		{
			"a decision about a guard outlives its leader", guardGo,
			"t.recordTrips(name, trips)\n\treturn states", "return states", inDiscovery, "TestAGuardThatHoldsWaitsForAPersonWhoseDecisionOutlivesTheLeader",
		},
		{
			"a damaged policy opens nothing", governorGo,
			"if was, is := t.governed[d.Name]; is {", "if was, is := t.governed[d.Name]; is && false {", inDiscovery, "TestAPolicyThatCannotBeReadLeavesTheOneInForce",
		},
		{
			"an answer that its instance cut off has failed", respondGo,
			"if !a.untaken {", "if false {", inGateway, "TestAnAnswerThatItsInstanceCutsOffHalfWayHasFailedAndOneThatItsCallerCutsOffHasNot",
		},
	}
}
