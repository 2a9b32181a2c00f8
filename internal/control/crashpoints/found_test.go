package crashpoints_test

import "testing"

func TestAnAttemptHasEndedOnlyOnceWhatALeaderBeforePutBackIsAcknowledged(t *testing.T) {
	run(t, parse(t, "deploy on a shared group | 0:apply catalog hello+revision hello-00002+saga hello.deploy.hello-00002#2 = error that did not land | 0:apply routes hello#1 = crash after"), inMemory)
}

func TestATeardownLeavesNoLineOfHistoryThoughAnAlarmIsOverLate(t *testing.T) {
	for _, then := range []string{"0:next saga hello.delete.-#3 = late", "0:apply -desired hello+-saga hello.delete.-#1 = late"} {
		run(t, parse(t, "delete | 0:report of host a#1 = late | "+then), inMemory)
	}
}

func TestARestartWhoseControlGoesAwayInItsMiddleEndsNothingThatACallerMayPick(t *testing.T) {
	run(t, parse(t, "restart | 0:apply instance SIM0000000002#1 = crash before | 1:watch#1 = crash before"), inMemory)
	run(t, parse(t, "restart | 0:report of host a#2 = late | 0:apply saga hello.restart.-#3 = late"), inMemory)
}

func TestAnOrderOfALeaderThatIsGoneEndsNothingThatACallerMayPick(t *testing.T) {
	run(t, parse(t, "scale up | 0:stop hello-00001.2#1 = late | 0:apply saga hello.scale.-#8 = crash after"), inMemory)
	run(t, parse(t, "restart | 0:assign hello-00001.0#2 = late | 0:apply saga hello.restart.-#5 = crash after"), inMemory)
}

func TestAStopWaitsForViewsThatNobodyCanPublishForAsLongAsIsPromisedAndThenGoesOn(t *testing.T) {
	run(t, parse(t, "exclusive deploy | 0:apply routes hello+saga hello.deploy.hello-00002#1 = crash before | 1:apply handles instances#1 = late"), inMemory)
}

func TestAChangeWhoseUndoFailedAgainAndAgainIsTriedOnceTheHostTakesOrders(t *testing.T) {
	run(t, parse(t, "exclusive rollback | 0:report of host a#2 = late | 0:assign hello-00001.2#1 = late"), inMemory)
}
