package discovery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

var threeZones = []string{"a", "b", "c"}

func (f *fleet) after(d time.Duration) {
	f.t.Helper()
	time.Sleep(d)
	synctest.Wait()
}

// profile declares which signals there are.
func (f *fleet) profile(p eligibility.Profile) {
	f.t.Helper()
	c := DefaultContract()
	c.Profile = p
	f.declare(c)
}

func TestInstancesAreInRotationAFewSecondsAfterTheyListen(t *testing.T) {
	inFleet(t, threeZones, 4, 2, func(f *fleet) {
		f.after(4 * time.Second)
		if c := f.counts(); c[view.Eligible] != 12 {
			t.Errorf("after 4 s the verdicts are %v", c)
		}
	})
}

func TestEveryProberCutOffFromControlWithdrawsNobodyAndTheAlarmNamesThem(t *testing.T) {
	inFleet(t, threeZones, 5, 2, func(f *fleet) {
		f.profile(eligibility.Profile{Probe: true})
		f.after(30 * time.Second)
		assigned, version := f.recorded()
		f.net.mute("p-c2", true)
		f.after(1500 * time.Millisecond) // and then the others, before it is known to be gone
		for name := range f.eyes {
			f.net.mute(name, true)
		}
		f.after(2 * time.Minute)
		f.nobodyLeft()
		if c := f.counts(); c[view.Unknown] != 15 {
			t.Errorf("15 instances are seen by nobody, and the verdicts are %v", c)
		}
		if now, again := f.recorded(); cmp.Diff(assigned, now) != "" || again != version {
			t.Errorf("nobody is heard, and the assignment of version %d became that of %d:\n%s", version, again, cmp.Diff(assigned, now))
		}
		want := "observation is lost: none of the probers [p-a1 p-a2 p-b1 p-b2 p-c1 p-c2] is heard; 15 of 15 instances are unknown"
		if d := cmp.Diff([]string{want}, f.leader.Alarms()); d != "" {
			t.Error(d)
		}
		if !f.log.has(`probers="[p-a1 p-a2 p-b1 p-b2 p-c1 p-c2]"`) {
			t.Error("the log does not name them")
		}
		for name := range f.eyes {
			f.net.mute(name, false)
		}
		f.after(20 * time.Second)
		if c := f.counts(); c[view.Eligible] != 15 || len(f.leader.Alarms()) != 0 {
			t.Errorf("when they are back the verdicts are %v, the alarms %v", c, f.leader.Alarms())
		}
	})
}

func TestEveryProberThatTimesOutOnEverythingIsSuspectAndNobodyLeaves(t *testing.T) {
	inFleet(t, threeZones, 6, 2, func(f *fleet) {
		f.profile(eligibility.Profile{Probe: true})
		f.after(30 * time.Second)
		for name := range f.eyes {
			f.net.way(name, "hangs")
		}
		f.after(30 * time.Second)
		if got := f.suspects(); len(got) != 6 {
			t.Errorf("6 probers are cut off from their targets, and suspect are %v", got)
		}
		for name := range f.eyes {
			if !slices.ContainsFunc(f.leader.Alarms(), func(a string) bool { return strings.Contains(a, name) }) {
				t.Errorf("no alarm names %s: %q", name, f.leader.Alarms())
			}
		}
		f.after(2 * time.Minute)
		f.nobodyLeft()
		if c := f.counts(); c[view.Unknown] != 18 {
			t.Errorf("nobody else sees the 18 instances, and the verdicts are %v", c)
		}
	})
}

func TestWithTheWholeIngestDownNobodyIsWithdrawn(t *testing.T) {
	inFleet(t, threeZones, 5, 2, func(f *fleet) {
		f.after(30 * time.Second)
		for name := range f.eyes {
			f.net.mute(name, true)
		}
		f.zones.edit(func(hosts []service.HostState) {
			for i := range hosts {
				hosts[i].Silent = time.Minute
			}
		})
		f.after(2 * time.Minute)
		f.nobodyLeft()
		if c := f.counts(); c[view.Unknown] != 15 {
			t.Errorf("15 instances are seen by nobody, and the verdicts are %v", c)
		}
	})
}

func TestAProberBehindAFirewallThatRefusesEverythingIsSuspectAndNobodyLeaves(t *testing.T) {
	for _, probers := range []int{1, 2} {
		t.Run(fmt.Sprint(probers, " of its zone"), func(t *testing.T) {
			inFleet(t, threeZones, 6, probers, func(f *fleet) {
				f.after(30 * time.Second)
				f.net.way("p-b1", "refuses")
				f.after(time.Minute)
				f.nobodyLeft()
				if got := f.suspects(); !slices.Equal(got, []string{"p-b1"}) {
					t.Errorf("suspect are %v", got)
				}
				if c := f.counts(); c[view.Eligible] != 18 {
					t.Errorf("the verdicts are %v", c)
				}
				if a := f.leader.Alarms(); len(a) != 1 || !strings.Contains(a[0], "prober p-b1 of zone b is suspect: 6 of the 6 targets") {
					t.Errorf("the alarms are %q", a)
				}
				f.net.way("p-b1", "")
				f.after(20 * time.Second)
				if got := f.suspects(); len(got) != 0 {
					t.Errorf("the way is open again, and suspect are %v", got)
				}
			})
		})
	}
}

// fewTargets runs f where zone b has three instances, which are too few to doubt a
// prober by, and then closes the way from each of its probers.
func fewTargets(t *testing.T, f func(f *fleet, closeWays func())) {
	t.Helper()
	for _, probers := range []int{1, 2} {
		t.Run(fmt.Sprint(probers, " of its zone"), func(t *testing.T) {
			inFleet(t, threeZones, 3, probers, func(fl *fleet) {
				f(fl, func() {
					for i := range probers {
						fl.net.way(fmt.Sprintf("p-b%d", i+1), "refuses")
					}
				})
			})
		})
	}
}

func TestProbersOfFewTargetsBehindAClosedWayRemoveNobodyWhoseCallersSuffice(t *testing.T) {
	fewTargets(t, func(f *fleet, closeWays func()) {
		r, second := f.leader.Reporter("gateway/gw"), uint64(0)
		calls := func(seconds int) {
			for range seconds {
				second++
				var seen []Outcome
				for i, x := range []string{"a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"} {
					o := Outcome{Instance: x, OK: 20}
					if (second+uint64(i))%5 == 0 { // one in a hundred fails, everywhere
						o.OK, o.Failed = 19, 1
					}
					seen = append(seen, o)
				}
				r.Take(second, seen)
				f.after(time.Second)
			}
		}
		calls(60)
		closeWays()
		calls(60)
		f.nobodyLeft()
		for _, x := range []string{"b1", "b2", "b3"} {
			if s := f.standing(x); s.Verdict != view.Eligible || s.Rule != eligibility.Disagree {
				f.t.Errorf("%s is %v by %v:\n%s", x, s.Verdict, s.Rule, strings.Join(s.Account.Classes, "\n"))
			}
		}
		if got := f.suspects(); len(got) != 0 {
			f.t.Errorf("by three targets are doubted %v", got)
		}
	})
}

func TestWithoutEnoughCallersProbersOfFewTargetsPutThemOutWhateverTheHostSaysAndTheGuardReturnsThem(t *testing.T) {
	fewTargets(t, func(f *fleet, closeWays func()) {
		f.after(90 * time.Second)
		closeWays()
		f.after(10 * time.Second)
		for _, x := range []string{"b1", "b2", "b3"} {
			s := f.standing(x)
			if s.Rule != eligibility.RefusedToProbers || !slices.Contains(s.Account.Classes, "self: ready") {
				f.t.Errorf("%s is %v by %v:\n%s", x, s.Verdict, s.Rule, strings.Join(s.Account.Classes, "\n"))
			}
			if e, _ := f.leader.View("s").Endpoint(x); !e.In() {
				f.t.Errorf("the guard leaves %+v out, with nobody left in its zone", e)
			}
		}
		if c := f.counts(); c[view.Eligible] != 6 {
			f.t.Errorf("the verdicts are %v", c)
		}
	})
}

func TestAProbersLookAtWhatIsNotItsOwnIsDiscardedAndCounted(t *testing.T) {
	inFleet(t, threeZones, 2, 1, func(f *fleet) {
		f.after(10 * time.Second)
		s, err := f.leader.Prober("p-liar", "z") // of a zone without instances
		if err != nil {
			t.Fatal(err)
		}
		f.after(2 * time.Second)
		victim := f.standing("a1")
		for number := range uint64(20) {
			if !s.Take(number+1, []ProbeLook{{Instance: victim.Handle, Result: eligibility.Refused}}) {
				t.Fatal("the stream has ended")
			}
			s.Take(number+1, []ProbeLook{{Instance: victim.Handle, Result: eligibility.Refused}}) // again
			f.after(time.Second)
		}
		got := f.leader.current().ingest.Discarded()
		if got[evidence.NotAssigned] != 20 || got[evidence.Repeated] != 20 {
			t.Errorf("of 20 looks, told twice, are discarded %v", got)
		}
		f.nobodyLeft()
		s.Close()
	})
}

func TestAClosedPortIsOutWithinOneIntervalUndamped(t *testing.T) {
	for _, probers := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(probers, " of its zone"), func(t *testing.T) {
			inFleet(t, []string{"a"}, 12, probers, func(f *fleet) {
				f.after(30 * time.Second)
				for i := range 5 {
					x := instanceOf("a", i)
					f.net.set(x.Address, "closed")
					closed := time.Now()
					for f.standing(x.ID).Rule != eligibility.RefusedToProbers {
						f.after(100 * time.Millisecond)
						if time.Since(closed) > 6*time.Second { // the interval, and the second that is sealed
							t.Fatalf("%s is %v by %v after %s", x.ID, f.standing(x.ID).Verdict, f.standing(x.ID).Rule, time.Since(closed))
						}
					}
				}
				if c := f.counts(); c[view.Eligible] != 7 {
					t.Errorf("the others are %v", c)
				}
			})
		})
	}
}

// calls has one gateway call every instance so often a second, for some seconds.
// One whose port is closed refuses it once, and is called no more.
func (f *fleet) calls(r *Reporter, number *uint64, perSecond uint32, seconds int, until func() bool) {
	f.t.Helper()
	for range seconds {
		var seen []Outcome
		all, _ := f.leader.Standings("s")
		for _, x := range all {
			f.net.mu.Lock()
			closed, told := f.net.ports[x.Address] == "closed", f.net.ports["told "+x.Address] != ""
			f.net.ports["told "+x.Address] = map[bool]string{true: "once", false: ""}[closed]
			f.net.mu.Unlock()
			switch {
			case !closed:
				seen = append(seen, Outcome{Instance: x.ID, OK: perSecond})
			case !told:
				seen = append(seen, Outcome{Instance: x.ID, Failed: 1, Refused: 1})
			}
		}
		*number++
		r.Take(*number, seen)
		for range 10 {
			f.after(100 * time.Millisecond)
			if until != nil && until() {
				return
			}
		}
	}
}

func TestAClosedPortIsOutWithinTenSecondsWhereCallersSufficeAndProbersOnlyConfirm(t *testing.T) {
	inFleet(t, []string{"a"}, 12, 2, func(f *fleet) {
		r, number := f.leader.Reporter("gateway/gw"), uint64(0)
		f.calls(r, &number, 20, 60, nil)
		for i := range 12 {
			if x := f.target(instanceOf("a", i).ID); x.interval != confirming*time.Second {
				t.Errorf("callers suffice at %s, and it is looked at each %s", x.id, x.interval)
			}
		}
		for i := range 4 {
			x := instanceOf("a", i)
			f.net.set(x.Address, "closed")
			closed := time.Now()
			f.calls(r, &number, 20, 11, func() bool { return f.standing(x.ID).Rule == eligibility.RefusedToProbers })
			if took := time.Since(closed); took > 10*time.Second {
				t.Errorf("%s is %v by %v after %s:\n%s", x.ID, f.standing(x.ID).Verdict, f.standing(x.ID).Rule, took, strings.Join(f.standing(x.ID).Account.Classes, "\n"))
			}
		}
	})
}

func TestProbesThatFailWhileEnoughCallsSucceedRemoveNobodyAndItIsSaid(t *testing.T) {
	inFleet(t, []string{"a"}, 3, 2, func(f *fleet) {
		f.leader.lead.setReady("/ready")
		f.zones.edit(func([]service.HostState) {})
		r, number := f.leader.Reporter("gateway/gw"), uint64(0)
		f.calls(r, &number, 20, 30, nil)
		f.net.set(instanceOf("a", 0).Address, "fails")
		f.calls(r, &number, 20, 60, nil)
		f.nobodyLeft()
		s := f.standing("a1")
		if s.Verdict != view.Eligible || s.Rule != eligibility.Disagree || !strings.Contains(s.Account.Why, "callers are believed: 99") {
			t.Errorf("it is %v by %v: %s", s.Verdict, s.Rule, s.Account.Why)
		}
		if all := strings.Join(s.Account.Classes, "\n"); !strings.Contains(all, "p-a1: failed") || !strings.Contains(all, "failed: it answered 503 Service Unavailable") || !strings.Contains(all, "by http /ready") {
			t.Errorf("the classes say\n%s", all)
		}
	})
}

func TestAQuietServiceIsDecidedByProbesAndTheEvidenceIsShownAsOfOneClass(t *testing.T) {
	inFleet(t, []string{"a"}, 3, 2, func(f *fleet) {
		f.leader.lead.setReady("/ready")
		f.after(20 * time.Second)
		if all := strings.Join(f.standing("a1").Account.Classes, "\n"); !strings.Contains(all, "p-a2: good") || !strings.Contains(all, "single-class evidence") {
			t.Errorf("the classes say\n%s", all)
		}
		f.net.set(instanceOf("a", 0).Address, "hangs")
		began := time.Now()
		for f.standing("a1").Rule != eligibility.FailingProbes {
			f.after(100 * time.Millisecond)
			if time.Since(began) > 15*time.Second { // ten to see it, five of damping
				t.Fatalf("it is %v by %v", f.standing("a1").Verdict, f.standing("a1").Rule)
			}
		}
		if all := strings.Join(f.standing("a1").Account.Classes, "\n"); !strings.Contains(all, "timed out") {
			t.Errorf("the classes say\n%s", all)
		}
		if c := f.counts(); c[view.Eligible] != 2 {
			t.Errorf("the verdicts are %v", c)
		}
		out := time.Now()
		f.net.set(instanceOf("a", 0).Address, "open")
		for f.standing("a1").Verdict != view.Eligible {
			f.after(time.Second)
			if time.Since(out) > 2*time.Minute {
				t.Fatal("it does not come back")
			}
		}
		if back := time.Since(out); back < 30*time.Second {
			t.Errorf("it came back after %s", back)
		}
	})
}

func TestAZoneWithOneProberLooksTwiceAndOneWithNoneBorrows(t *testing.T) {
	inFleet(t, threeZones, 3, 0, func(f *fleet) {
		f.look("p-a1", "a")
		f.look("p-b1", "b")
		f.look("p-b2", "b")
		f.after(10 * time.Second)
		for id, want := range map[string]string{"a1": "probed by p-a1 (alone); each 5s by tcp", "b1": "probed by p-b1, p-b2; each 5s by tcp", "c1": "probed by p-a1 (borrowed from zone a); each 5s by tcp"} {
			if classes := f.standing(id).Account.Classes; classes[len(classes)-1] != want {
				t.Errorf("of %s it is said %q, want %q", id, classes[len(classes)-1], want)
			}
		}
		if c := f.counts(); c[view.Eligible] != 9 {
			t.Errorf("the verdicts are %v", c)
		}
		all, _, _ := f.leader.Probers()
		if len(all) != 3 || all[0].Targets != 6 || all[0].Borrowed != 3 || all[1].Targets != 3 || all[1].Borrowed != 0 {
			t.Errorf("the probers are %+v", all)
		}
		f.net.set(instanceOf("c", 0).Address, "closed")
		f.after(6 * time.Second)
		if s := f.standing("c1"); s.Rule != eligibility.RefusedToProbers {
			t.Errorf("a port that closed is %v by %v", s.Verdict, s.Rule)
		}
	})
}

func TestWithoutAnyProberTheHostsWordSuffices(t *testing.T) {
	inFleet(t, threeZones, 2, 0, func(f *fleet) {
		f.after(3 * time.Second)
		if c := f.counts(); c[view.Eligible] != 6 {
			t.Errorf("the verdicts are %v", c)
		}
		if got := f.standing("a1").Account.Classes[0]; got != "probes: there is no prober" {
			t.Errorf("it is said %q", got)
		}
		f.look("p-a1", "a")
		f.after(8 * time.Second)
		if got := f.standing("c1").Account.Classes[0]; !strings.Contains(got, "p-a1: good") {
			t.Errorf("a prober has joined, and it is said %q", got)
		}
		if c := f.counts(); c[view.Eligible] != 6 {
			t.Errorf("the verdicts are %v", c)
		}
		f.kill("p-a1")
		f.after(forgetAfter + time.Minute)
		if got := f.standing("c1").Account.Classes[0]; got != "probes: there is no prober" {
			t.Errorf("it was away for an hour, and it is said %q", got)
		}
		f.nobodyLeft()
	})
}

// recorded are the probers' records: :: prober → instances.
func (f *fleet) recorded() (targets map[string]string, version uint64) {
	f.t.Helper()
	docs, _, err := f.store.List(f.t.Context(), service.KindProber)
	if err != nil {
		f.t.Fatal(err)
	}
	targets = map[string]string{}
	for _, d := range docs {
		var r ProberRecord
		if err := json.Unmarshal(d.Body, &r); err != nil {
			f.t.Fatal(err)
		}
		targets[r.Name] = strings.Join(r.Targets, " ")
		version = max(version, r.Version)
	}
	return targets, version
}

func TestAProberThatIsGoneIsReplacedAndItsSilenceIsItsOwn(t *testing.T) {
	inFleet(t, []string{"a"}, 6, 3, func(f *fleet) {
		f.after(20 * time.Second)
		before, version := f.recorded()
		f.net.mute("p-a2", true)
		f.after(goneAfter + 3*time.Second)
		after, next := f.recorded()
		if before["p-a2"] == "" || after["p-a2"] != "" || next <= version {
			t.Errorf("it looked at %q, and is recorded with %q; the version went from %d to %d", before["p-a2"], after["p-a2"], version, next)
		}
		if after["p-a1"] != "a1 a2 a3 a4 a5 a6" || after["p-a3"] != after["p-a1"] {
			t.Errorf("the other two look at %v", after)
		}
		if a := f.leader.Alarms(); len(a) != 1 || !strings.Contains(a[0], "prober p-a2 of zone a has been silent for ") {
			t.Errorf("the alarms are %q", a)
		}
		f.after(time.Minute)
		if c := f.counts(); c[view.Eligible] != 6 {
			t.Errorf("the verdicts are %v", c)
		}
		f.nobodyLeft()
		f.net.mute("p-a2", false)
		f.after(10 * time.Second)
		if back, _ := f.recorded(); cmp.Diff(before, back) != "" {
			t.Errorf("it is back, and who looks at what is not as before:\n%s", cmp.Diff(before, back))
		}
		if got := f.leader.current().ingest.Discarded(); got[evidence.NotAssigned] != 0 {
			t.Errorf("looks were discarded: %v", got)
		}
	})
}

func TestANewLeaderGoesOnWithTheAssignmentThatIsRecorded(t *testing.T) {
	inFleet(t, threeZones, 4, 2, func(f *fleet) {
		f.after(20 * time.Second)
		before, version := f.recorded()
		for name := range f.eyes { // they find the new leader late, but in time
			f.net.mute(name, true)
		}
		f.lead()
		f.after(comeBack - 3*time.Second)
		for name := range f.eyes {
			f.net.mute(name, false)
		}
		if d := cmp.Diff(before, first(f.recorded())); d != "" {
			t.Errorf("the new leader assigned anew:\n%s", d)
		}
		f.after(time.Minute)
		after, again := f.recorded()
		if d := cmp.Diff(before, after); d != "" || again != version {
			t.Errorf("version %d became %d:\n%s", version, again, d)
		}
		if got := f.leader.current().ingest.Discarded(); len(got) != 0 {
			t.Errorf("discarded are %v", got)
		}
		all, _, _ := f.leader.Probers()
		for _, p := range all {
			if !p.Connected || p.Targets != 4 || p.Looked.IsZero() {
				t.Errorf("under the new leader a prober is %+v", p)
			}
		}
		f.nobodyLeft()
	})
}

func first[A, B any](a A, _ B) A { return a }

func TestUntilTheStoreAnswersTheAssignmentBeforeStands(t *testing.T) {
	inFleet(t, []string{"a"}, 6, 2, func(f *fleet) {
		f.after(20 * time.Second)
		before, _ := f.recorded()
		letGo := f.leader.lead.hold()
		f.net.mute("p-a2", true)
		f.look("p-a3", "a")
		f.after(20 * time.Second)
		for i := range 6 {
			if x := f.target(instanceOf("a", i).ID); !slices.Equal(x.probers, []uint32{1, 2}) {
				t.Fatalf("what is not recorded is in force: %v", x.probers)
			}
		}
		letGo()
		f.after(3 * time.Second)
		after, _ := f.recorded()
		if after["p-a3"] != before["p-a1"] || after["p-a2"] != "" {
			t.Errorf("when the store answers, recorded is %v", after)
		}
	})
}

func TestThePrecedingAssignmentIsAcceptedForAnIntervalAndNoLonger(t *testing.T) {
	inFleet(t, []string{"a"}, 3, 2, func(f *fleet) {
		f.after(20 * time.Second)
		handle := f.standing("a1").Handle
		in := f.leader.current().ingest
		// Better placed probers come until the first looks at a1 no more.
		first := f.target("a1").probers[0]
		for i := 0; slices.Contains(f.target("a1").probers, first); i++ {
			f.look(fmt.Sprintf("p-x%d", i), "a")
			f.after(time.Second)
		}
		in.Probes(first, []evidence.Look{{Instance: handle}})
		if n := in.Discarded()[evidence.NotAssigned]; n != 0 {
			t.Errorf("a look of the preceding assignment was discarded")
		}
		f.after((preceding + 2) * time.Second)
		in.Probes(first, []evidence.Look{{Instance: handle}})
		if n := in.Discarded()[evidence.NotAssigned]; n != 1 {
			t.Errorf("an interval later it is not: %d discarded", n)
		}
	})
}

func TestARefusalHasTheOtherProberLookAtOnce(t *testing.T) {
	inFleet(t, []string{"a"}, 12, 2, func(f *fleet) {
		f.after(30 * time.Second)
		for i := range 5 {
			x := instanceOf("a", i)
			refused := func() (n int) {
				for _, s := range f.target(x.ID).seen {
					if s.result == eligibility.Refused {
						n++
					}
				}
				return n
			}
			f.net.set(x.Address, "closed")
			for refused() == 0 {
				f.after(10 * time.Millisecond)
			}
			f.after(100 * time.Millisecond)
			if n := refused(); n != 2 {
				t.Errorf("a moment after the first refusal of %s %d probers have seen it", x.ID, n)
			}
		}
	})
}

func TestTheIntervalIsShortUntilTheFirstVerdictAndLongWhereCallersSuffice(t *testing.T) {
	inFleet(t, []string{"a"}, 1, 1, func(f *fleet) {
		interval := func() time.Duration { return f.target("a1").interval }
		for interval() == 0 {
			f.after(10 * time.Millisecond)
		}
		if interval() != quick {
			t.Errorf("before its first verdict it is looked at each %s", interval())
		}
		f.after(20 * time.Second)
		if interval() != 5*time.Second {
			t.Errorf("with few calls it is looked at each %s", interval())
		}
		f.dialsOf("p-a1")
		f.after(50 * time.Second)
		if n := f.dialsOf("p-a1"); n != 10 {
			t.Errorf("%d looks in 50 s", n)
		}
		r, number := f.leader.Reporter("gateway/gw"), uint64(0)
		f.calls(r, &number, 20, 30, nil)
		if interval() != confirming*time.Second {
			t.Errorf("with many calls it is looked at each %s", interval())
		}
		f.dialsOf("p-a1")
		f.calls(r, &number, 20, 80, nil)
		if n := f.dialsOf("p-a1"); n != 10 {
			t.Errorf("%d looks in 80 s", n)
		}
	})
}

// target as the plane has it now; zero where it has none.
func (f *fleet) target(id string) target {
	t := f.leader.current()
	if t == nil {
		return target{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.probing.targets[id]
	if x == nil {
		return target{}
	}
	out := *x
	out.probers, out.before, out.seen = slices.Clone(x.probers), slices.Clone(x.before), slices.Clone(x.seen)
	return out
}

// dialsOf a prober since it was asked last.
func (f *fleet) dialsOf(name string) int {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	n := f.net.dials[name]
	f.net.dials[name] = 0
	return n
}

func TestAnInstanceThatIsStoppedIsLookedAtNoMore(t *testing.T) {
	inFleet(t, []string{"a"}, 2, 2, func(f *fleet) {
		f.after(20 * time.Second)
		f.zones.edit(func(hosts []service.HostState) { hosts[0].Instances[0].State = service.InstanceDraining })
		f.after(2 * time.Second)
		f.net.set(instanceOf("a", 0).Address, "closed")
		f.after(20 * time.Second)
		if got, _ := f.recorded(); got["p-a1"] != "a2" || got["p-a2"] != "a2" {
			t.Errorf("looked at is %v", got)
		}
		if s := f.standing("a1"); s.Rule != eligibility.SaysDraining {
			t.Errorf("it is %v by %v", s.Verdict, s.Rule)
		}
		if got := f.leader.current().ingest.Discarded(); len(got) != 0 {
			t.Errorf("discarded are %v", got)
		}
	})
}

func TestProbesTakeLessThanHalfAPercentOfBytesWhereCallersSuffice(t *testing.T) {
	inFleet(t, []string{"a"}, 6, 2, func(f *fleet) {
		r, number := f.leader.Reporter("gateway/gw"), uint64(0)
		busy := func(seconds int) { // 20 calls of a kilobyte each second at each instance
			for range seconds {
				f.calls(r, &number, 20, 1, nil)
				r.Weighed(300, 6*20*1000)
			}
		}
		busy(30)
		before := f.leader.current().ingest.Bytes()
		busy(200)
		after := f.leader.current().ingest.Bytes()
		probes, calls := after[probeBytes]-before[probeBytes], after[callBytes]-before[callBytes]
		if probes == 0 || 1000*probes >= 5*calls {
			t.Errorf("%d bytes of looks beside %d of calls are %.2f%%", probes, calls, 100*float64(probes)/float64(calls))
		}
	})
}

// metrics are what is told of the plane: :: name and labels → value.
func (f *fleet) metrics() map[string]float64 {
	f.t.Helper()
	families, err := f.gathered.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "fairlead_discovery_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func TestMetricsSayWhoLooksWhoIsSilentAndWhoIsSuspect(t *testing.T) {
	inFleet(t, []string{"a", "b"}, 6, 2, func(f *fleet) {
		f.after(20 * time.Second)
		f.net.mute("p-a1", true)
		f.net.way("p-b1", "refuses")
		f.after(20 * time.Second)
		got := f.metrics()
		for name, want := range map[string]float64{
			"probers silent a": 1, "probers heard a": 1, "probers suspect b": 1, "probers heard b": 1, "suspect_probers": 1,
			"probe_targets": 12, "unwatched_instances": 0, "instances s eligible": 12,
		} {
			if got[name] != want {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
		if got["wire_bytes_total probes"] == 0 {
			t.Error("what looks cost is not told")
		}
	})
}

func TestADeclaredCheckIsWhatProbersDo(t *testing.T) {
	inFleet(t, []string{"a"}, 2, 2, func(f *fleet) {
		f.leader.lead.setReady("/ready")
		f.net.set(instanceOf("a", 0).Address, "fails /health")
		f.after(20 * time.Second)
		if c := f.counts(); c[view.Eligible] != 2 {
			t.Fatalf("by the ready path the verdicts are %v", c)
		}
		c := DefaultContract()
		c.Look = &eligibility.ProbeCheck{Kind: "http", Path: "health"}
		f.declare(c)
		f.after(20 * time.Second)
		if s := f.standing("a1"); s.Rule != eligibility.FailingProbes {
			t.Errorf("by the path that its contract declares it is %v by %v: %q", s.Verdict, s.Rule, s.Account.Classes)
		}
		if s := f.standing("a2"); s.Verdict != view.Eligible || !strings.Contains(strings.Join(s.Account.Classes, "\n"), "each 5s by http health") {
			t.Errorf("its sibling is %v: %q", s.Verdict, s.Account.Classes)
		}
	})
}

func TestAProberThatMovedLooksAtItsNewZone(t *testing.T) {
	inFleet(t, []string{"a", "b"}, 2, 2, func(f *fleet) {
		f.after(10 * time.Second)
		f.kill("p-a1")
		f.look("p-a1", "b")
		f.after(5 * time.Second)
		got, _ := f.recorded()
		if got["p-a2"] != "a1 a2" || got["p-b1"]+got["p-b2"]+got["p-a1"] == "" || strings.Contains(got["p-a1"], "a1") {
			t.Errorf("looked at is %v", got)
		}
		all, _, _ := f.leader.Probers()
		if all[0].Name != "p-a1" || all[0].Zone != "b" {
			t.Errorf("it is listed as %+v", all[0])
		}
		f.nobodyLeft()
	})
}

func TestALaterStreamOfAProberTakesThePlaceOfTheEarlier(t *testing.T) {
	inFleet(t, []string{"a"}, 2, 0, func(f *fleet) {
		f.after(time.Second)
		earlier, err := f.leader.Prober("p", "a")
		if err != nil {
			t.Fatal(err)
		}
		later, err := f.leader.Prober("p", "a")
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-earlier.Done():
		default:
			t.Error("both are open")
		}
		earlier.Close() // which does not end the later one
		if earlier.Take(1, nil) || !later.Take(1, nil) {
			t.Error("looks are taken in by the wrong stream")
		}
		if n := later.News(); !n.Full || !n.Assignment {
			t.Errorf("it begins with %+v", n)
		}
	})
}

func TestTheNumberOfAProberIsNeverGivenToAnother(t *testing.T) {
	inFleet(t, []string{"a"}, 1, 2, func(f *fleet) {
		f.after(5 * time.Second)
		f.kill("p-a1")
		f.kill("p-a2")
		f.after(forgetAfter + time.Minute)
		f.lead() // it knows what is recorded
		f.look("p-new", "a")
		f.after(5 * time.Second)
		docs, _, err := f.store.List(t.Context(), service.KindProber)
		if err != nil {
			t.Fatal(err)
		}
		handles := map[string]uint32{} // :: prober → handle
		for _, d := range docs {
			var r ProberRecord
			if err := json.Unmarshal(d.Body, &r); err != nil {
				t.Fatal(err)
			}
			handles[r.Name] = r.Handle
		}
		if len(handles) != 2 || handles["p-new"] != 3 {
			t.Errorf("two are forgotten, of which the last keeps its record, and recorded are %v", handles)
		}
	})
}

func TestAnInstanceThatNeverBecomesWellIsNotHurriedForEver(t *testing.T) {
	inFleet(t, []string{"a"}, 1, 1, func(f *fleet) {
		f.leader.lead.setReady("/ready")
		f.net.set(instanceOf("a", 0).Address, "fails")
		f.after(20 * time.Second)
		f.dialsOf("p-a1")
		f.after(10 * time.Second)
		if n := f.dialsOf("p-a1"); n != 20 {
			t.Errorf("%d looks in its first ten seconds", n)
		}
		f.after(time.Minute)
		f.dialsOf("p-a1")
		f.after(50 * time.Second)
		if n := f.dialsOf("p-a1"); n != 10 {
			t.Errorf("%d looks in fifty seconds, a minute later", n)
		}
		if s := f.standing("a1"); s.Verdict != view.Unknown || s.Rule != eligibility.Starting {
			t.Errorf("it is %v by %v", s.Verdict, s.Rule)
		}
	})
}
