package historytest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead-platform/fairlead/internal/historytest"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// log reads lines of: generation revision attempt kind | text. A dash is no revision.
func log(t *testing.T, lines string) []service.Event {
	var out []service.Event
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		var e service.Event
		head, text, _ := strings.Cut(strings.TrimSpace(line), " | ")
		if _, err := fmt.Sscanf(head, "%d %s %d %s", &e.Generation, &e.Revision, &e.Attempt, &e.Kind); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Text = text; e.Revision == "-" {
			e.Revision = ""
		}
		out = append(out, e)
	}
	return out
}

// served is a first revision that serves, and begun a second that is ready.
const (
	served = `
		1 x-00001 1 step | deploy queue: revision x-00001 for generation 1
		1 x-00001 1 step | deploy install: 1 instance on 1 host
		1 x-00001 1 step | deploy instances: 1 instance on 1 host
		1 x-00001 1 step | deploy ready: 1 instance live for 3s
		1 x-00001 1 routes | published: 100% to x-00001
		1 x-00001 1 step | deploy routes: 100% to x-00001; acknowledged by 2 of 2 gateways
		1 x-00001 1 step | deploy finalize: x-00001 serves all traffic`
	begun = served + `
		2 - 0 desired | deploy asked for by ann
		2 x-00002 1 step | deploy queue: revision x-00002 for generation 2
		2 x-00002 1 step | deploy install: 1 instance on 1 host
		2 x-00002 1 step | deploy instances: 1 instance on 1 host`
	second = begun + `
		2 x-00002 1 step | deploy ready: 1 instance live for 3s
		2 x-00002 1 routes | published: 100% to x-00002
		2 x-00002 1 step | deploy routes: 100% to x-00002; acknowledged by 2 of 2 gateways
		2 x-00002 1 step | deploy finalize: x-00002 serves all traffic`
	failed = begun + `
		2 x-00002 1 step | deploy failed at ready: 0 of 1 instances stayed live
		2 x-00002 1 step | deploy waits 30s for its next attempt`
)

func TestAHistoryThatCanBeIsAllowed(t *testing.T) {
	for name, lines := range map[string]string{
		"two deploys and the collection of the first": second + `
			2 x-00001 1 step | collect stop: 1 instance stopped
			2 x-00001 1 step | collect retire: x-00001 is retired`,
		"what left a revision that serves is stopped": second + `
			2 x-00002 1 step | collect stop: what had left it is stopped
			2 x-00002 1 step | collect retire: nothing to retire`,
		"a second attempt that does its steps again": failed + `
			3 x-00002 2 step | deploy install: 1 instance on 1 host
			3 x-00002 2 step | deploy instances: 1 instance on 1 host
			3 x-00002 2 step | deploy ready: 1 instance live for 3s`,
		"an attempt that waits is ended": failed + `
			2 x-00002 1 step | deploy failed at ready: aborted: generation 3 ended what was asked for until then
			2 x-00002 1 step | deploy ended: aborted: generation 3 ended what was asked for until then
			3 x-00002 1 step | collect stop: 0 instances stopped
			3 x-00002 1 step | collect retire: x-00002 is retired`,
		"an exclusive handover": begun + `
			2 x-00002 1 routes | published: held: 100% to x-00002`,
		"a deploy under pinned traffic": begun + `
			2 x-00002 1 step | deploy ready: 1 instance live for 3s
			2 x-00002 1 routes | published: 100% to x-00001, 0% to x-00002 (tag new)`,
		"a rollback, a repair and a pause": second + `
			3 - 1 routes | published: 90% to x-00001, 10% to x-00002 (tag new)
			3 - 1 step | traffic capacity: everything runs
			3 - 1 step | traffic publish: 90% to x-00001, 10% to x-00002 (tag new); acknowledged by 2 of 2 gateways
			3 - 1 step | traffic record: x-00001 serves 90%, x-00002 serves 10%
			3 - 0 repair | the routes (no traffic) differ from the catalog (100% to x-00001): published again
			4 - 1 step | traffic: it is paused before publish; it goes on by: fairlead resume x
			4 - 1 step | scale place: 1 wanted: 0 added, 0 to stop`,
	} {
		if err := historytest.Check(log(t, lines)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHistoryThatCannotBeIsRefused(t *testing.T) {
	for _, tc := range []struct{ lines, says string }{
		{begun + `
			2 x-00002 1 routes | published: 100% to x-00002`, "x-00002, which is not ready"},
		{begun + `
			2 x-00002 1 step | deploy routes: 100% to x-00002; acknowledged by 2 of 2 gateways`, "routes is done before ready"},
		{failed + `
			2 x-00002 1 routes | published: 100% to x-00002`, "which is not ready"},
		{begun + `
			3 - 1 routes | published: 50% to x-00001, 50% to x-00002`, "whose deploy is not finalized"},
		{second + `
			3 - 1 routes | published: 100% to x-00007`, "x-00007, which was never minted"},
		{second + `
			2 x-00002 1 step | collect stop: 1 instance stopped`, "x-00002 is collected, and requests are led to it"},
		{second + `
			3 - 1 routes | published: held: 100% to x-00001
			3 x-00002 1 step | collect retire: x-00002 is retired`, "x-00002 is collected, and the catalog has it"},
		{second + `
			3 - 1 routes | published: 100% to x-00001
			3 x-00001 1 step | collect retire: x-00001 is retired`, "x-00001 is collected, and requests are led to it"},
		{failed + `
			2 x-00002 1 step | collect retire: x-00002 is retired`, "its deploy goes on"},
		{second + `
			2 x-00002 1 step | deploy finalize: x-00002 serves all traffic`, "has ended: it is finalized"},
		{second + `
			2 x-00002 1 step | deploy failed at routes: late`, "has ended: it is finalized"},
		{second + `
			3 x-00002 1 step | deploy queue: revision x-00002 for generation 3`, "minted twice"},
		{second + `
			3 x-00001 1 step | deploy queue: revision x-00001 for generation 3`, "minted twice"},
		{failed + `
			2 x-00002 2 step | deploy ready: 1 instance live for 3s
			2 x-00002 1 step | deploy routes: x`, "attempt 1, after one of attempt 2"},
		{failed + `
			2 x-00002 1 step | deploy ready: 1 instance live for 3s`, "goes on after it has failed"},
		{begun + `
			2 x-00002 2 step | deploy ready: 1 instance live for 3s`, "attempt 1 has not failed"},
		{begun + `
			2 x-00002 1 step | deploy failed at ready: no
			2 x-00002 1 step | deploy ready: 1 instance live for 3s`, "is not undone"},
		{begun + `
			1 x-00002 1 step | deploy ready: 1 instance live for 3s`, "generation 1, after one of generation 2"},
		{second + `
			3 - 0 desired | delete asked for by ann
			3 x-00003 1 step | deploy queue: revision x-00003 for generation 3`, "generation 3 has deleted the service"},
		{`
			1 x-00001 1 step | deploy queue: revision x-00001 for generation 1
			9 x-00008 2 step | deploy ready: 1 instance live for 3s`, "x-00008 was never minted in this life"},
		{`
			1 x-00002 1 step | deploy queue: revision x-00002 for generation 1
			2 x-00001 1 step | deploy queue: revision x-00001 for generation 2`, "after revision 2"},
		{`
			9 x-00008 1 step | collect retire: x-00008 is retired`, "x-00008 was never minted in this life"},
		{`
			1 x-00001 1 step | deploy wanders: off`, "was never minted"},
		{begun + `
			2 x-00002 1 step | deploy wanders: off`, "no such step"},
		{begun + `
			2 - 0 needs-operator | needs no operator any more; settled is: x`, "was not needed"},
		{`
			1 x-00001 1 step | something else`, "of no kind that is known"},
	} {
		err := historytest.Check(log(t, tc.lines))
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s\nis answered by %v, not by %q", tc.lines, err, tc.says)
		}
	}
}

func TestWhatTheCommandPrintsIsRead(t *testing.T) {
	events, err := historytest.Parse([]byte(`{"events":[{"at":"2026-01-02T03:04:05.6Z","generation":1,"revision":"x-00001","attempt":1,"kind":"step","text":"deploy ready: 1 instance live for 3s"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := historytest.Check(events); err == nil || !strings.Contains(err.Error(), "x-00001 was never minted") {
		t.Errorf("it is judged as %v", err)
	}
}
