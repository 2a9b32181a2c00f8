package evaluate

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/view"
)

// Two queues before one line of versions: whatever happens, and whenever each
// goes, versions rise; what is urgent brings nothing; what ended is not sent to;
// a removal by plan never passes an addition that was made before it; and once
// everything has gone, callers hold what is true.
func TestWhatWaitsNeverOvertakesAndIsNeverOvertakenByWhatItMustFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlane(4, "a")
		p.run(60, good)
		held := p.Publish("s", true).View
		rows := map[string]registry.Instance{}
		for _, x := range p.reg.Of("s") {
			rows[x.ID] = x
		}
		added := []string{}                 // in rotation by verdict and not yet in the view, in order
		mustFollow := map[string][]string{} // :: instance that leaves by plan → additions made before
		publish := func(all bool) {
			before := held
			out := p.Publish("s", all)
			if !out.Changed {
				return
			}
			if out.View.Version.Against(before.Version) != view.Newer {
				t.Fatalf("%s follows %s", out.View.Version, before.Version)
			}
			held = out.View
			if out.Rest {
				for _, e := range held.Endpoints {
					if was, there := before.Endpoint(e.ID); e.In() && (!there || !was.In()) && !tripped(before, held) {
						t.Fatalf("%s came with what is urgent", e.ID)
					}
				}
			}
			for id, first := range mustFollow {
				if e, _ := held.Endpoint(id); e.In() {
					continue
				}
				for _, a := range first {
					if e, _ := held.Endpoint(a); !e.In() && !rows[a].Gone && !rows[a].Terminating {
						t.Fatalf("%s left by plan before %s came", id, a)
					}
				}
				delete(mustFollow, id)
			}
			if !all {
				for _, e := range held.Endpoints {
					if rows[e.ID].Gone && e.In() {
						t.Fatalf("%s has ended and is sent to", e.ID)
					}
				}
			}
		}
		put := func(x registry.Instance) {
			rows[x.ID] = x
			if x.Gone {
				if _, judged := p.End(x); judged {
					p.reg.Put(x)
					return
				}
			}
			p.enter(x)
		}
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			ids := []string{}
			for _, x := range p.reg.Of("s") {
				if !rows[x.ID].Gone {
					ids = append(ids, x.ID)
				}
			}
			switch what := rapid.SampledFrom([]string{"add", "leave", "end", "urgent", "all"}).Draw(t, "what"); {
			case what == "add":
				id := fmt.Sprintf("b-%03d", step)
				x := p.enter(registry.Instance{ID: id, Service: "s", Revision: "r", Zone: "a", Address: "127.0.0.1:1", Source: registry.Host, EverReady: true})
				rows[id] = x
				p.run(6, good)
				added = append(added, id)
			case what == "urgent" || len(ids) < 3:
				publish(false)
			case what == "all":
				publish(true)
				added = nil
			default:
				x := rows[rapid.SampledFrom(ids).Draw(t, "who")]
				if what == "leave" {
					x.Terminating = true
					if e, _ := held.Endpoint(x.ID); e.In() {
						mustFollow[x.ID] = append([]string{}, added...)
					}
				} else {
					x.Gone = true
				}
				put(x)
				p.run(1, nil)
				publish(false)
			}
		}
		publish(true)
		truth := p.Publish("s", true)
		if truth.Changed || truth.View.Digest() != held.Digest() || truth.View.Shed {
			t.Fatal("something is left when everything has gone")
		}
	})
}

// tripped reports whether the guard returned a whole set between two views.
func tripped(before, after *view.Service) bool {
	for _, m := range after.Marks {
		if m.DegradedConfidence {
			return true
		}
	}
	return len(before.Marks) != len(after.Marks)
}
