package discovery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

func TestAnInstanceThatItsHostListsNoMoreAndSaysNothingOfGoesWithTheSecondAnswer(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		time.Sleep(3500 * time.Millisecond)
		has := func(what string, want bool) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			if got := strings.Contains(l.verdicts(), "i1 eligible"); got != want {
				t.Fatalf("%s: %q", what, l.verdicts())
			}
		}
		lone := r.hosts.all
		for _, c := range []struct {
			what string
			edit func()
			want bool
		}{
			{"it is listed", func() {}, true},
			{"one answer without it", func() { r.hosts.all, r.hosts.answers = nil, 1 }, true},
			{"something else of the host changed", func() {}, true},
			{"the right answer again", func() { r.hosts.all, r.hosts.answers = lone, 2 }, true},
			{"and again one without it", func() { r.hosts.all, r.hosts.answers = nil, 3 }, true},
			{"another without it", func() { r.hosts.answers = 4 }, false},
		} {
			r.hosts.edit(c.edit)
			has(c.what, c.want)
		}
	})
}

func TestAnInstanceThatItsHostStandsByNotListingGoesAfterTenSeconds(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(1)
		l := r.begin()
		defer l.stop()
		time.Sleep(3500 * time.Millisecond)
		r.hosts.edit(func() { r.hosts.all, r.hosts.answers = nil, 1 })
		time.Sleep((relistEvery - 1) * time.Second)
		synctest.Wait()
		if !strings.Contains(l.verdicts(), "i1 eligible") {
			t.Fatalf("after less than that: %q", l.verdicts())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if strings.Contains(l.verdicts(), "i1 eligible") {
			t.Errorf("after that: %q", l.verdicts())
		}
	})
}

func TestAnInstanceWhoseEndItsHostExplainsGoesAtOnce(t *testing.T) {
	for why, edit := range map[string]func(h *hosts){
		"its end was told":                  func(h *hosts) { h.all, h.ended = nil, []string{"i0", "i1"} },
		"another process runs in the slot":  func(h *hosts) { h.all[0].ID = "i2" },
		"the host left with nothing behind": func(h *hosts) { h.all, h.left = nil, true },
		"it was to stop":                    func(h *hosts) { h.all[0].State = service.InstanceDraining },
	} {
		t.Run(why, func(t *testing.T) {
			inRegion(t, func(r *rig) {
				r.hosts.run(1)
				l := r.begin()
				defer l.stop()
				time.Sleep(3500 * time.Millisecond)
				r.hosts.edit(func() { edit(r.hosts) })
				time.Sleep(1500 * time.Millisecond)
				r.hosts.edit(func() {
					if len(r.hosts.all) > 0 && r.hosts.all[0].ID == "i1" {
						r.hosts.all = nil
					}
				})
				time.Sleep(1500 * time.Millisecond)
				synctest.Wait()
				if strings.Contains(l.verdicts(), "i1 eligible") {
					t.Errorf("it is there still: %q", l.verdicts())
				}
			})
		})
	}
}
