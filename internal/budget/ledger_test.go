package budget

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/view"
)

const sec = time.Second

func number(counter uint64) Number { return Number{Epoch: 1, Counter: counter} }

// kept is how the promise of a kind within a time was kept.
func kept(t *testing.T, l *Ledger, k Kind, within, now time.Duration) Standing {
	t.Helper()
	for _, s := range l.Judge(now) {
		if s.Kind == k && s.Within == within {
			return s
		}
	}
	t.Fatalf("nothing is promised of a %s within %s", k, within)
	return Standing{}
}

func TestAWithdrawalIsMeasuredByTheAcknowledgementsOfThoseWhoHeldTheViewBefore(t *testing.T) {
	l := &Ledger{}
	l.Publish(number(1), view.Adds, 0, 0)
	l.Publish(number(2), view.Withdraws, 3, 10*sec)
	l.Acknowledge(number(1), number(2), 1, 10*sec+20*time.Millisecond)
	l.Acknowledge(number(1), number(2), 1, 12*sec)
	if s := kept(t, l, Withdrawal, 5*sec, 14*sec); s.Due != 2 || s.InTime != 2 || s.Missed() {
		t.Errorf("before its time has passed only what was given counts: %+v", s)
	}
	if s := kept(t, l, Withdrawal, 5*sec, 16*sec); s.Due != 3 || s.InTime != 2 || !s.Missed() {
		t.Errorf("who gave none in time is late: %+v", s)
	}
	l.Acknowledge(number(1), number(2), 1, 17*sec)
	if s := kept(t, l, Withdrawal, 5*sec, 18*sec); s.Due != 3 || s.InTime != 2 {
		t.Errorf("late it is late: %+v", s)
	}
	if s := kept(t, l, Withdrawal, 15*sec, 18*sec); s.Due != 3 || s.InTime != 3 || s.Missed() {
		t.Errorf("and in time for the longer promise: %+v", s)
	}
	h := l.Latency[Withdrawal]
	if within, over := h.Quantile(0.5); h.Count() != 3 || within != 2500*time.Millisecond || over {
		t.Errorf("half of %d came within %s", h.Count(), within)
	}
	if l.Latency[Addition].Count() != 0 {
		t.Error("it counts for additions")
	}
}

func TestOneAcknowledgementIsOfAllThatWasPublishedSinceTheLast(t *testing.T) {
	l := &Ledger{}
	for n := range uint64(5) {
		l.Publish(number(n+1), view.Withdraws|view.Adds, 1, time.Duration(n)*sec)
	}
	l.Acknowledge(number(2), number(4), 1, 4*sec)
	if w, a := l.Latency[Withdrawal].Count(), l.Latency[Addition].Count(); w != 2 || a != 2 {
		t.Errorf("%d withdrawals and %d additions were acknowledged, want those of two versions", w, a)
	}
	if at, behind := l.Since(number(4)); !behind || at != 4*sec {
		t.Errorf("behind since %s, %v", at, behind)
	}
	if _, behind := l.Since(number(5)); behind {
		t.Error("who holds the newest is behind")
	}
}

func TestWhoLeavesOwesNothing(t *testing.T) {
	l := &Ledger{}
	l.Publish(number(1), view.Withdraws, 2, 0)
	l.Acknowledge(number(0), number(1), 1, sec)
	l.Leave(number(0))
	if s := kept(t, l, Withdrawal, 5*sec, 20*sec); s.Due != 1 || s.InTime != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestAMissedBudgetIsForgottenAfterTheWindow(t *testing.T) {
	l := &Ledger{}
	l.Publish(number(1), view.Withdraws, 1, Window)
	if !kept(t, l, Withdrawal, 5*sec, Window+40*sec).Missed() {
		t.Fatal("it is not missed")
	}
	for at := Window + 41*sec; at < 3*Window+41*sec; at += sec {
		l.Judge(at)
	}
	if s := kept(t, l, Withdrawal, 5*sec, 3*Window+42*sec); s.Missed() || s.Due != 0 {
		t.Errorf("after two windows: %+v", s)
	}
}

func TestSumsOfARelayCountLikeItsSubscribers(t *testing.T) {
	l := &Ledger{}
	l.Publish(number(7), view.Withdraws, 100, 0)
	none := func(Number) int { return 0 }
	at := func(n int) func(Number) int {
		return func(x Number) int {
			if x == number(7) {
				return n
			}
			return 0
		}
	}
	l.Reached(none, at(60), 0, sec)
	l.Reached(at(60), at(60), 0, 2*sec)
	l.Reached(at(60), at(90), 10, 3*sec)
	if n := l.Latency[Withdrawal].Count(); n != 90 {
		t.Errorf("%d acknowledged", n)
	}
	if s := kept(t, l, Withdrawal, 5*sec, 6*sec); s.Due != 90 || s.InTime != 90 {
		t.Errorf("ten left: %+v", s)
	}
}

// Whatever callers do: nobody acknowledges twice, nothing is in time that is
// not due, and what is kept is bounded.
func TestALedgerCountsEachAcknowledgementOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, now, top, published := &Ledger{}, time.Duration(0), uint64(0), 0
		owes := make([]uint64, rapid.IntRange(1, 5).Draw(t, "callers"))
		here := make([]bool, len(owes))
		due := 0
		for i := range here {
			here[i] = true
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			i := rapid.IntRange(0, len(owes)-1).Draw(t, "caller")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				top++
				n := 0
				for k := range here {
					if here[k] {
						n++
					}
				}
				l.Publish(number(top), view.Withdraws, n, now)
				published, due = published+1, due+n
			case 1:
				if to := rapid.Uint64Range(0, top).Draw(t, "to"); here[i] && owes[i] < to {
					l.Acknowledge(number(owes[i]), number(to), 1, now)
					owes[i] = to
				}
			case 2:
				if here[i] {
					l.Leave(number(owes[i]))
					here[i] = false
				}
			case 3:
				if !here[i] {
					here[i], owes[i] = true, top
				}
			}
			for _, s := range l.Judge(now) {
				if s.InTime > s.Due || s.Due > due || s.Due < 0 {
					t.Fatalf("after %d publications: %+v, at most %d are due", published, s, due)
				}
			}
			if len(l.all) > Kept || l.Latency[Withdrawal].Count() > uint64(due) {
				t.Fatalf("%d are kept, %d acknowledged of %d", len(l.all), l.Latency[Withdrawal].Count(), due)
			}
		}
	})
}
