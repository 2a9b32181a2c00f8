package main

const withdrawGo = "internal/control/withdraw.go"

// pickers are the rules of those who pick by views.
func pickers() []mutant {
	return []mutant{
		{
			"what a caller may still pick is not stopped", withdrawGo,
			"if stop.For.Nobody() {", "if true {", inControl, "TestAStopIsWithdrawnFirstAndWaitsForCallersForFifteenSecondsAtMost",
		},
		{
			"no caller holds a stop for ever", withdrawGo,
			"err := j.await(ctx, r, routing.Grace, func()", "err := j.await(ctx, r, 100*routing.Grace, func()", inControl, "TestAStopIsWithdrawnFirstAndWaitsForCallersForFifteenSecondsAtMost",
		},
		{
			"a restart keeps the old process beside the new one until callers have acknowledged", scaleGo,
			"j.assignFor(ctx, r, rev, one, untilTold)", "j.assignFor(ctx, r, rev, one, j.c.cfg.Dwell+0*routing.Grace)", inControl, "TestARestartInItsSlotEndsTheOldProcessOnlyOnceCallersHaveAcknowledged",
		},
		{
			"a service's worker is free while a collection waits for callers", repairGo,
			"if !reach.Callers(r.Name).Nobody() && w.Unreferenced(r.Name) < CollectAfter+routing.Grace {", "if !reach.Callers(r.Name).Nobody() && w.Unreferenced(r.Name) < CollectAfter-routing.Grace {", inControl, "TestARevisionThatIsRoutedNoMoreIsNotStoppedBeforeCallersHaveAcknowledgedItOrHadTheirTime",
		},
		{
			"a deploy is done once its view is published", publishGo,
			"return follows, announceLook, nil", "return follows || !follows, announceLook, nil", inControl, "TestADeployIsNotDoneUntilTheViewThatHoldsItsInstancesIsPublished",
		},
	}
}
