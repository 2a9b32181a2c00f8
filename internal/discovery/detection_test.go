package discovery

import (
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
)

// detected is what the histogram says of a path and a stage of the service s.
func (r *rig) detected(path, stage string) (count uint64, sum float64) {
	r.t.Helper()
	all, err := r.gathered.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != "fairlead_discovery_detection_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if label(m, "service") == "s" && label(m, "path") == path && label(m, "stage") == stage {
				return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			}
		}
	}
	return 0, 0
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func TestHowLongDetectionTakesIsMeasuredFromTheFirstBadSampleToTheVerdictAndTheView(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(8)
		l := r.begin()
		defer l.stop()
		time.Sleep(2 * time.Second)
		one, two := r.watcher(l, "p1"), r.watcher(l, "p2")
		good := func(n int, but map[string]eligibility.Result) {
			for range n {
				time.Sleep(time.Second)
				one.says(eligibility.Good, but)
				two.says(eligibility.Good, but)
			}
		}
		good(30, nil)
		time.Sleep(200 * time.Millisecond)
		one.refused("i1")
		time.Sleep(300 * time.Millisecond)
		two.refused("i1")
		time.Sleep(window)
		synctest.Wait()
		if n, sum := r.detected("hard", "verdict"); n != 1 || sum < 0.3 || sum > 0.3+window.Seconds() {
			t.Errorf("hard, to the verdict: %d in %g s", n, sum)
		}
		if n, sum := r.detected("hard", "published"); n != 1 || sum > 0.06 {
			t.Errorf("hard, to the view: %d in %g s", n, sum)
		}
		good(12, map[string]eligibility.Result{"i1": eligibility.Refused, "i2": eligibility.TimedOut})
		synctest.Wait()
		if n, sum := r.detected("soft", "verdict"); n != 1 || sum < 1 || sum > 10 {
			t.Errorf("soft, to the verdict: %d in %g s", n, sum)
		}
		if n, _ := r.detected("soft", "published"); n != 1 {
			t.Errorf("soft, to the view: %d", n)
		}
		l.peek(func(t *term) { t.detection.forget("s") })
		if n, _ := r.detected("hard", "verdict"); n != 0 {
			t.Error("a service that is no more is measured still")
		}
	})
}
