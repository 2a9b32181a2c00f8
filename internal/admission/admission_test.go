package admission_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/internal/admission"
)

func TestARegionAdmitsFivePercentAndNeverFewerThanFifty(t *testing.T) {
	for _, c := range []struct{ population, doors, want int }{
		{0, 1, 50},
		{3, 1, 50},
		{1000, 1, 50},
		{1001, 1, 50},
		{1020, 1, 51},
		{60_000, 1, 3000},
		{40, 4, 50},
		{51, 4, 12},
		{60_000, 4, 750},
		{60_000, 10_000, 1},
	} {
		if got := admission.Share(c.population, c.doors); got != c.want {
			t.Errorf("of %d at %d doors each admits %d, want %d", c.population, c.doors, got, c.want)
		}
	}
}

func TestASmallInstallationIsBackAtOnce(t *testing.T) {
	g := admission.New(admission.Share(3, 1))
	for i := range 50 {
		if ok, retry := g.Ask(time.Second, admission.Rest); !ok {
			t.Fatalf("subscriber %d is told to wait %s", i, retry)
		}
	}
	if ok, retry := g.Ask(time.Second, admission.Rest); ok || retry <= 0 || retry > admission.Window {
		t.Errorf("the 51st: %v, %s", ok, retry)
	}
}

func TestWhoHoldsNothingGoesFirst(t *testing.T) {
	g := admission.New(1000)
	now := time.Minute
	for range 5000 { // all who hold views come first
		g.Ask(now, admission.Rest)
	}
	waited := time.Duration(0)
	for i := range 500 {
		ok, retry := g.Ask(now, admission.First)
		if !ok {
			waited = max(waited, retry)
		}
		if !ok && i < 800-120 {
			t.Fatalf("the %d. of those who hold nothing waits %s", i, retry)
		}
	}
	if waited > 0 {
		t.Errorf("of 500 who hold nothing some wait %s", waited)
	}
}

func TestWhoClaimsToHoldNothingKeepsNobodyOutForEver(t *testing.T) {
	g := admission.New(100)
	in, due := 0, time.Duration(0)
	for now := time.Duration(0); now < time.Minute; now += time.Millisecond {
		g.Ask(now, admission.First) // a thousand times a second
		if now < due {
			continue
		}
		ok, retry := g.Ask(now, admission.Rest)
		if due = now + retry; ok {
			in++
		}
	}
	if in < 90 { // a fifth of 100 in each of six windows, but for what is lost between
		t.Errorf("%d of the rest were admitted in a minute", in)
	}
}

// The most in any window, the time that the last was admitted, and how often
// one was refused at most, when so many come within a second and then when they
// are told to.
func storm(t *testing.T, population, limit int, jitter func() time.Duration) (most int, last time.Duration, refused int) {
	t.Helper()
	g := admission.New(limit)
	q := make(arrivals, population)
	for i := range q {
		q[i] = arrival{at: jitter()}
	}
	heap.Init(&q)
	var at []time.Duration
	for len(q) > 0 {
		a := q[0]
		ok, retry := g.Ask(a.at, admission.Rest)
		if ok {
			at = append(at, a.at)
			heap.Pop(&q)
			continue
		}
		a.refused++
		refused = max(refused, a.refused)
		a.at += retry + jitter()
		q[0] = a
		heap.Fix(&q, 0)
	}
	for i := range at {
		n := 0
		for j := i; j >= 0 && at[i]-at[j] < admission.Window && n <= limit; j-- {
			n++
		}
		most = max(most, n)
	}
	return most, at[len(at)-1], refused
}

type arrival struct {
	at      time.Duration
	refused int
}

type arrivals []arrival

func (q arrivals) Len() int           { return len(q) }
func (q arrivals) Less(i, j int) bool { return q[i].at < q[j].at }
func (q arrivals) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *arrivals) Push(x any)        { *q = append(*q, x.(arrival)) }
func (q *arrivals) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func TestAPopulationIsBackAsFastAsItsLimitAllows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, population := range []int{1000, 2000, 60_000} {
		limit := admission.Limit(population)
		most, last, refused := storm(t, population, limit, func() time.Duration { return time.Duration(r.Float64() * float64(time.Second)) })
		need := admission.Window * time.Duration(population) / time.Duration(limit)
		t.Logf("%d: %d in a window, the last after %s of %s, refused %d times at most", population, most, last, need, refused)
		if most > limit {
			t.Errorf("of %d, %d are admitted in a window, more than %d", population, most, limit)
		}
		if last > need*11/10 {
			t.Errorf("of %d the last is back after %s; the limit explains %s", population, last, need)
		}
		if refused > 4 {
			t.Errorf("of %d somebody is refused %d times", population, refused)
		}
	}
}

func TestNeverMoreThanTheLimitInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 60).Draw(t, "limit")
		g := admission.New(limit)
		now := time.Duration(0)
		var at []time.Duration
		for range rapid.IntRange(1, 300).Draw(t, "asked") {
			now += time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond
			c := admission.Class(rapid.IntRange(0, 1).Draw(t, "class"))
			ok, retry := g.Ask(now, c)
			if ok != (retry == 0) || retry < 0 || retry > 5*time.Minute {
				t.Fatalf("admitted %v and told to wait %s", ok, retry)
			}
			if ok {
				at = append(at, now)
			}
		}
		for i := range at {
			if i >= limit && at[i]-at[i-limit] < admission.Window {
				t.Fatalf("%d within %s", limit+1, at[i]-at[i-limit])
			}
		}
	})
}

func TestALimitThatFallsIsKeptFromThenOn(t *testing.T) {
	g := admission.New(100)
	for range 100 {
		g.Ask(0, admission.First)
	}
	g.SetLimit(10)
	if ok, retry := g.Ask(5*time.Second, admission.First); ok || retry < 5*time.Second {
		t.Errorf("within the window: %v, %s", ok, retry)
	}
	in := 0
	for range 100 {
		if ok, _ := g.Ask(11*time.Second, admission.First); ok {
			in++
		}
	}
	if in != 10 {
		t.Errorf("%d are admitted after it", in)
	}
}

func TestThePopulationIsTheMostOfTheLastHourAndIsRememberedOverARestart(t *testing.T) {
	var p admission.Population
	p.See(0, 500)
	p.See(59*time.Minute, 20)
	p.See(61*time.Minute, 20)
	if p.Known() != 500 {
		t.Errorf("after an hour: %d", p.Known())
	}
	p.See(119*time.Minute, 30)
	p.See(125*time.Minute, 10)
	if p.Known() != 30 {
		t.Errorf("after two hours: %d", p.Known())
	}
	p = admission.Remembered(60_000, time.Second)
	p.See(time.Minute, 3)
	if p.Known() != 60_000 {
		t.Errorf("after a restart: %d", p.Known())
	}
	p.See(5*time.Hour, 3)
	if p.Known() != 3 {
		t.Errorf("when nobody came back: %d", p.Known())
	}
}
