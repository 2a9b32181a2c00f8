package agent

import (
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/resolver"
)

func TestAPickWhoseEndNobodyTellsIsGivenUp(t *testing.T) {
	now := time.Unix(0, 0)
	p := newPicks(func() time.Time { return now })
	early := p.add("web", "payments", resolver.Pick{})
	now = now.Add(pickFor)
	late := p.add("web", "payments", resolver.Pick{})
	now = now.Add(time.Second)
	p.expire()
	if _, ok := p.take("web", early); ok {
		t.Error("one counts as in flight after two minutes")
	}
	if _, ok := p.take("job", late); ok {
		t.Error("one was taken by another workload")
	}
	if _, ok := p.take("web", late); !ok || p.len() != 0 {
		t.Errorf("the other is gone too, or %d are left", p.len())
	}
}

func TestAWorkloadThatNeverTellsTakesNoPicksFromOthers(t *testing.T) {
	p := newPicks(time.Now)
	first := p.add("web", "payments", resolver.Pick{})
	for range mostPicks + 10 {
		p.add("job", "payments", resolver.Pick{})
	}
	if p.len() != mostPicks {
		t.Errorf("%d are open", p.len())
	}
	if _, ok := p.take("web", first); !ok {
		t.Error("another's pick gave way")
	}
	if p.giveUp(); p.len() != 0 || len(p.of) != 0 {
		t.Errorf("%d are left of %d workloads", p.len(), len(p.of))
	}
}
