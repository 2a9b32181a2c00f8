package resolver

import (
	crowds "container/heap"
	"math/rand/v2"
	"testing"
	"time"

	doorway "github.com/fairlead-platform/fairlead/internal/admission"
)

// returning is one subscriber on its way back, in virtual time.
type returning struct {
	at      time.Duration
	attempt int
}

type crowd []returning

func (c crowd) Len() int           { return len(c) }
func (c crowd) Less(i, j int) bool { return c[i].at < c[j].at }
func (c crowd) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *crowd) Push(x any)        { *c = append(*c, x.(returning)) }
func (c *crowd) Pop() any {
	x := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return x
}

// comeBack has so many lose their streams at once and return by the client's own
// pauses, to a door that answers from up on. It returns when each was let in, in
// order, and how often one was refused at most.
func comeBack(n int, spread, up time.Duration, ask func(now time.Duration) (bool, time.Duration)) (in []time.Duration, refused int) {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	l := loop{jitter: r.Float64, spread: func() time.Duration { return spread }}
	c := make(crowd, n)
	for i := range c {
		c[i] = returning{at: l.pause(0, 0, false)}
	}
	crowds.Init(&c)
	told := map[int]int{} // :: attempts → how many needed them
	for len(c) > 0 {
		x := &c[0]
		ok, retry := false, time.Duration(0)
		if x.at >= up {
			ok, retry = ask(x.at)
		}
		if ok {
			in = append(in, x.at)
			told[x.attempt]++
			crowds.Pop(&c)
			continue
		}
		x.attempt++
		if retry > 0 {
			refused = max(refused, x.attempt)
		}
		x.at += l.pause(x.attempt, retry, false)
		crowds.Fix(&c, 0)
	}
	return in, refused
}

// most is how many there are within any span.
func most(at []time.Duration, span time.Duration) (n int) {
	for i, j := 0, 0; i < len(at); i++ {
		for at[i]-at[j] >= span {
			j++
		}
		n = max(n, i-j+1)
	}
	return n
}

func TestSixtyThousandSubscribersThatReconnectAfterARestartAreLetInByFivePercentInTenSeconds(t *testing.T) {
	const n = 60_000
	g := doorway.New(doorway.Share(n, 1)) // the population was remembered
	in, refused := comeBack(n, doorway.Window, 0, func(now time.Duration) (bool, time.Duration) { return g.Ask(now, doorway.Rest) })
	last, explained := in[n-1], doorway.Window*n/time.Duration(g.Limit())
	t.Logf("the last is back after %s, where the cap explains %s; refused %d times at most", last, explained, refused)
	if got := most(in, doorway.Window); got > n/20 {
		t.Errorf("%d are let in within ten seconds", got)
	}
	if last > explained*115/100 {
		t.Errorf("the last is back after %s; the cap explains %s", last, explained)
	}
}

func TestThreeSubscribersAreBackAtOnce(t *testing.T) {
	g := doorway.New(doorway.Share(3, 1))
	in, _ := comeBack(3, 3*time.Millisecond, 0, func(now time.Duration) (bool, time.Duration) { return g.Ask(now, doorway.Rest) })
	if in[2] > backoffBase {
		t.Errorf("the last is back after %s", in[2])
	}
}

func TestTenThousandAgainstARelayThatNeverRefusesAreSpreadByTheirOwnJitter(t *testing.T) {
	const n = 10_000
	for _, up := range []time.Duration{0, 30 * time.Second} { // a restart, and an outage
		in, _ := comeBack(n, doorway.Window, up, func(time.Duration) (bool, time.Duration) { return true, 0 })
		if got := most(in, time.Second); got > n/5 { // after an outage twice as many wait briefly as would if all began at once
			t.Errorf("%d of them come within a second, after %s", got, up)
		}
		if last := in[n-1]; last > up+doorway.Window {
			t.Errorf("the last comes after %s", last)
		}
	}
}
