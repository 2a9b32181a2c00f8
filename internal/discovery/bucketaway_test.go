package discovery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestABucketThatStaysAwayIsAnAlarmThatSaysWhatItCostsAndWhatToDoUntilItIsBack(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		time.Sleep(61 * time.Second)
		r.bucket.breaks(true)
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if a := l.Alarms(); len(a) != 0 {
			t.Errorf("after a single failure: %q", a)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		a := l.Alarms()
		if len(a) != 1 || !strings.Contains(a[0], "the bucket has taken nothing for 2m") || !strings.Contains(a[0], "s of evidence wait for it, 0 are given up") || !strings.Contains(a[0], "can be written and has room ("+"cannot keep evidence") {
			t.Errorf("alarms are %q", a)
		}
		if away := r.metric("fairlead_discovery_bucket_away_seconds"); away < 120 {
			t.Errorf("the metric says %g s", away)
		}
		if n := r.metric("fairlead_discovery_unsealed_ticks"); n < 120 {
			t.Errorf("%g seconds are said to wait", n)
		}
		r.bucket.breaks(false)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if a := l.Alarms(); len(a) != 0 || r.metric("fairlead_discovery_bucket_away_seconds") != 0 {
			t.Errorf("it is back: %q", a)
		}
	})
}

// metric is the value of a gauge without labels.
func (r *rig) metric(name string) float64 {
	r.t.Helper()
	all, err := r.gathered.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	r.t.Fatalf("there is no metric %s", name)
	return 0
}

func TestMetricsOfDiscoveryAreNamedByConvention(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		all, err := r.gathered.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			name, counter := f.GetName(), f.GetType().String() == "COUNTER"
			switch {
			case !strings.HasPrefix(name, "fairlead_"), strings.ToLower(name) != name, f.GetHelp() == "" || !strings.HasSuffix(f.GetHelp(), "."):
				t.Errorf("%s: %q", name, f.GetHelp())
			case counter != strings.HasSuffix(name, "_total"):
				t.Errorf("%s is a %s", name, f.GetType())
			case strings.Contains(name, "_ms") || strings.Contains(name, "_milli"):
				t.Errorf("%s is not in base units", name)
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "instance" || l.GetName() == "endpoint" {
						t.Errorf("%s has a label for each %s: they are without bound", name, l.GetName())
					}
				}
			}
		}
	})
}
