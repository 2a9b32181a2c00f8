package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The long form is `make soak`; this is the short one.
var soakPlan = flag.String("soak", "15x200ms", "deploys and readiness dwells of the soak, as 1000x200ms,100x3s")

const soakConnections = 64 // at each gateway

// A soak has rounds, each with callers of its own. In the first ones something
// is killed in the middle of every second deploy, in the others nothing: what
// grows from life to life shows in the first, what grows within one in the last.
const (
	rounds   = 15
	warmAt   = 3 // rounds
	calmFrom = 9
)

// soak is deploys in a row under load.
type soak struct {
	*plant
	random    *rand.Rand
	revisions int
	kills     int
	failures  int
	calls     *caller
	times     soakTimes
	answered  int64
	apart     int
	levels    []level // after the warm-up, after the last kill, at the end
}

func TestDeploysInARowWithEverythingKilledInRotationLoseNothingAndLeaveNothingBehind(t *testing.T) {
	for _, part := range strings.Split(*soakPlan, ",") {
		t.Run(part, func(t *testing.T) {
			var deploys int
			count, text, _ := strings.Cut(part, "x")
			dwell, err := time.ParseDuration(text)
			if _, errN := fmt.Sscan(count, &deploys); errN != nil || err != nil || deploys < rounds {
				t.Fatalf("%q is no number of deploys, %d or more, and a dwell", part, rounds)
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			s := &soak{plant: newPlant(t, plantOptions{controlArgs: []string{"--ready-dwell", dwell.String()}}), random: rand.New(rand.NewPCG(seed, 0))}
			s.run(deploys, dwell)
		})
	}
}

func (s *soak) run(deploys int, dwell time.Duration) {
	began := time.Now()
	s.deploy("hello", "--instances", "2")
	s.revisions = 1
	for n := range rounds {
		s.calls = s.call("hello", soakConnections, s.name())
		s.calls.more(soakConnections)
		for i := range deploys*(n+1)/rounds - deploys*n/rounds {
			s.next(n < calmFrom && i%2 == 0, dwell)
		}
		s.endRound()
		s.t.Logf("%d deploys, %d kills, %d answered", s.revisions-1, s.kills, s.answered)
		if n+1 == warmAt || n == calmFrom || n+1 == rounds {
			s.settle()
			s.levels = append(s.levels, s.level())
		}
	}
	s.t.Logf("%d deploys, %d kills, %d answers to %d callers at two gateways, %d held by what was killed; %s", s.revisions-1, s.kills, s.answered, soakConnections, s.apart, time.Since(began).Round(time.Second))
	s.t.Log("\n" + s.times.String())
	early, calm, last := s.levels[0], s.levels[1], s.levels[2]
	s.t.Log("\n" + growthTable(early, calm, last))
	for _, why := range append(grown("since the warm-up", early, last.lasting()), grown("within one life", calm, last)...) {
		s.t.Error(why)
	}
}

func (s *soak) name() string { return fmt.Sprintf("hello-%05d", s.revisions) }

// next deploys, kills something meanwhile where it is to, and waits until
// everyone agrees.
func (s *soak) next(kill bool, dwell time.Duration) {
	s.t.Helper()
	old := s.name()
	s.revisions++
	s.calls.expect(old, s.name())
	h := handover{old: old, revision: s.name(), killed: kill}
	ended := make(chan commandEnd, 1)
	go func() { ended <- s.deployOnce() }()
	if kill {
		time.Sleep(time.Duration(s.random.Int64N(int64(dwell + 400*time.Millisecond)))) // anywhere within the deploy
		s.killOne()
	}
	e := <-ended
	if kill && e.code == 3 { // control was killed before it was asked
		e = s.deployOnce()
	}
	if e.err != nil { // go on, to see what else there is
		s.failures++
		s.t.Errorf("%s should have been deployed by one attempt: %v\n%s\n%s", s.name(), e.err, e.out, s.plant.world.run("explain", "hello").all())
	}
	if kill || e.err != nil {
		s.agree("hello", s.name(), 2*time.Minute)
	}
	s.calls.expect(s.name())
	h.routes = routesTook(string(e.out))
	s.times.add(h)
}

// commandEnd is how a command ended that was run beside others.
type commandEnd struct {
	out  []byte
	err  error
	code int
}

func (s *soak) deployOnce() commandEnd {
	cmd := exec.Command(fairlead, "deploy", "hello", "--env", "ROUND="+s.name())
	cmd.Env = s.env()
	out, err := cmd.CombinedOutput()
	return commandEnd{out, err, cmd.ProcessState.ExitCode()}
}

// killOne kills the next in the rotation, and starts it again.
func (s *soak) killOne() {
	s.t.Helper()
	members := []*member{s.control, s.gateways[0], s.hosts[0], nil, s.control, s.gateways[1], s.hosts[1], nil}
	m := members[s.kills%len(members)]
	s.kills++
	began := time.Now()
	what := "an instance"
	if m == nil {
		s.killInstances("hello", s.hosts[s.kills/4%2].name)
	} else {
		what = m.name
		m.kill()
		m.again()
	}
	s.t.Logf("%s: killed %s; it is back after %s", began.Format(clock), what, time.Since(began).Round(time.Millisecond))
}

// endRound ends the callers and judges them.
func (s *soak) endRound() {
	s.t.Helper()
	s.calls.more(soakConnections)
	s.calls.end()
	s.times.read(s.calls)
	s.answered += s.calls.answered.Load()
	s.apart += s.calls.found.apart
	// The next caller begins with an empty ledger, and nothing is away.
	if err := os.Remove(filepath.Join(s.ledger("hello"), "executed")); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.facts = nil
	s.mu.Unlock()
	if s.failures > 5 {
		s.t.Fatal("too many of them")
	}
}

// settle waits until nothing runs but the revision that serves and the one
// before, which is kept warm.
func (s *soak) settle() {
	s.t.Helper()
	warm := fmt.Sprintf("hello-%05d", s.revisions-1)
	eventually(s.t, time.Minute, "what the handovers left has ended", func() bool {
		return !slices.ContainsFunc(s.status("hello").Instances, func(i instance) bool { return i.Revision != s.name() && i.Revision != warm })
	})
}

// level of everything that could grow.
func (s *soak) level() level {
	s.t.Helper()
	l := level{}
	for _, m := range append(append([]*member{s.control}, s.gateways...), s.hosts...) {
		if err := l.ofProcess(m.name, m.cmd.Process.Pid, opsOf(m)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := l.ofFolder(s.data, s.ledger("")); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// opsOf is the address of its plain port, as it says it.
func opsOf(m *member) string {
	line := m.waitFor("ops http://", time.Second)
	_, rest, _ := strings.Cut(line, "ops http://")
	address, _, _ := strings.Cut(rest, "/")
	return cmp.Or(address, "no address in "+line)
}
