package resolver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// several endpoints, those from the first that is out on told to be so.
func several(n, firstOut int) (out []view.Endpoint) {
	for i, e := range many(n) {
		if i >= firstOut {
			e.Weight, e.Verdict = 0, view.Ineligible
		}
		out = append(out, e)
	}
	return out
}

// pickedOf is how many different instances are picked.
func pickedOf(t *testing.T, r *Resolver) int {
	t.Helper()
	seen := map[string]bool{}
	for range 2000 {
		p, err := r.Pick("payments")
		if err != nil {
			t.Fatal(err)
		}
		seen[p.ID()] = true
		p.Done(Good)
	}
	return len(seen)
}

// followed has the test follow a plane without sockets.
func followed(t *testing.T, f func(t *testing.T, p *noSocket, r *Resolver, dir string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, dir := newNoSocket(), t.TempDir()
		p.publish(payments(p.epoch, 10, several(20, 20)...))
		r := opened(t, p, dir)
		defer closed(t, r)
		f(t, p, r, dir)
	})
}

func TestAPlaneThatMarksAllIneligibleIsStoppedByTheCallersOwnGuard(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, _ string) {
		p.publish(payments(p.epoch, 11, several(20, 0)...)) // its own guard is broken
		time.Sleep(time.Second)
		if n := pickedOf(t, r); n != 10 {
			t.Errorf("%d instances are picked, want half of 20", n)
		}
		got, err := r.Resolve("payments")
		if err != nil || !strings.Contains(got.Objection, "10 of these stay") || got.View.Version.Counter != 11 {
			t.Errorf("resolved to %+v: %v", got, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.applied) != 1 || p.applied[0].GetObjection() == "" || p.applied[0].GetCounter() != 11 {
			t.Errorf("the plane was told %v", p.applied)
		}
	})
}

func TestTenViewsThatLoseATenthEachInAMinuteLeaveHalf(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, _ string) {
		for i := range 10 {
			p.publish(payments(p.epoch, uint64(11+i), several(20, 18-2*i)...))
			time.Sleep(6 * time.Second)
		}
		if n := pickedOf(t, r); n != 10 {
			t.Errorf("%d instances are picked, want half of 20", n)
		}
	})
}

func TestAnEmptyViewIsPickedByOnlyWithThePlanesWord(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, _ string) {
		p.publish(payments(p.epoch, 11))
		time.Sleep(time.Second)
		if n := pickedOf(t, r); n != 20 {
			t.Errorf("%d instances are picked after an empty view", n)
		}
		empty := payments(p.epoch, 12)
		empty.Empty = true
		p.publish(empty)
		time.Sleep(time.Second)
		if _, err := r.Pick("payments"); err == nil {
			t.Error("an instance of a service that was scaled to zero is picked")
		}
	})
}

func TestWhatItsAuthorityRemovedLeavesAtOnceAndWhatHealthTookIsHeld(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, _ string) {
		p.publish(payments(p.epoch, 11, several(2, 2)...)) // 18 of 20 have ended
		time.Sleep(time.Second)
		if n := pickedOf(t, r); n != 2 {
			t.Errorf("%d instances are picked of the two that are left", n)
		}
		p.publish(payments(p.epoch, 12, several(2, 0)...))
		time.Sleep(time.Second)
		if n := pickedOf(t, r); n != 1 {
			t.Errorf("%d instances are picked where health took both", n)
		}
	})
}

// succeeded has another leader come, who knows so many instances.
func (p *noSocket) succeeded(region string, e view.Epoch, instances int) {
	p.goAway(errAway)
	p.mu.Lock()
	p.region, p.epoch = region, e
	p.mu.Unlock()
	synctest.Wait()
	p.publish(payments(e, 1, several(instances, instances)...))
	p.come()
}

func TestALowerVersionAReplayAndAnotherRegionsViewAreRefusedAndCounted(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, _ string) {
		p.publish(payments(p.epoch, 11, several(20, 20)...))
		time.Sleep(time.Second)
		p.publish(payments(p.epoch, 9, several(1, 1)...)) // lower
		time.Sleep(time.Second)
		p.publish(payments(p.epoch, 10, several(20, 20)...)) // a replay
		time.Sleep(time.Second)
		if s := r.Status(); s.RefusedViews < 2 || s.Services[0].Version.Counter != 11 || pickedOf(t, r) != 20 {
			t.Errorf("status: %+v", s)
		}
		p.succeeded("eu", view.Epoch{Incarnation: "i", Number: 2, Nonce: "m"}, 20)
		time.Sleep(time.Minute)
		if s := r.Status(); s.Services[0].Version.Region != "eu" {
			t.Fatalf("status: %+v", s)
		}
		p.succeeded("us", view.Epoch{Incarnation: "other", Number: 7, Nonce: "n"}, 1)
		before := r.Status().RefusedViews
		time.Sleep(time.Minute)
		if s := r.Status(); s.RefusedViews == before || s.Services[0].Version.Region != "eu" || pickedOf(t, r) != 20 || !strings.Contains(fmt.Sprint(s.Notes), "another region") {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestANewEpochIsFollowedAndANewIncarnationIsTakenThroughEveryGuard(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, _ string) {
		for _, next := range []view.Epoch{{Incarnation: "i", Number: 2, Nonce: "m"}, {Incarnation: "restored", Number: 1, Nonce: "n"}} {
			left := 20
			if next.Incarnation != "i" {
				left = 2 // a store of long ago
			}
			p.succeeded("", next, left)
			time.Sleep(time.Minute)
			s := r.Status()
			if v := s.Services[0].Version; v.Incarnation != next.Incarnation || v.Epoch != next.Number {
				t.Fatalf("picked is by %s under %s", v, next)
			}
			if n, want := pickedOf(t, r), max(left, 10); n != want {
				t.Errorf("%d instances are picked under %s, want %d", n, next, want)
			}
		}
	})
}

func TestOnAFullDiskViewsArePickedByAndSaidToBeInMemoryAlone(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, dir string) {
		time.Sleep(time.Second)
		file := filepath.Join(dir, "fairlead", "views", "payments.view")
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/full", file+".tmp"); err != nil { // writing to it gives ENOSPC
			t.Fatal(err)
		}
		p.publish(payments(p.epoch, 11, several(5, 5)...))
		synctest.Wait()
		s := r.Status()
		if !strings.Contains(s.KeepError, "no space left") || s.Services[0].Version.Counter != 11 || s.Services[0].Keeps.Counter != 10 || pickedOf(t, r) != 5 {
			t.Errorf("status: %+v", s)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("the former file is not what it was: %v", err)
		}
		time.Sleep(2 * time.Second) // what was begun was removed: there is room again
		if s := r.Status(); s.KeepError != "" || s.Services[0].Keeps.Counter != 11 {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestATornFileIsSetAsideAndTheViewIsHadAnew(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, dir string) {
		time.Sleep(time.Second)
		closed(t, r)
		file := filepath.Join(dir, "fairlead", "views", "payments.view")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, torn := range map[string][]byte{"half": b[:len(b)/2], "empty": nil, "one bit": append(append([]byte(nil), b[:len(b)-3]...), b[len(b)-3]^1, b[len(b)-2], b[len(b)-1])} {
			if err := os.WriteFile(file, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			again := opened(t, p, dir)
			if s := again.Status(); len(s.Notes) == 0 || !strings.Contains(s.Notes[0], "set aside") || pickedOf(t, again) != 20 {
				t.Errorf("%s: status %+v", name, s)
			}
			time.Sleep(time.Second)
			closed(t, again)
		}
	})
}

func TestTwoProcessesOfOneFolderBothPickAndOneOfThemKeeps(t *testing.T) {
	followed(t, func(t *testing.T, p *noSocket, r *Resolver, dir string) {
		time.Sleep(time.Second)
		second := opened(t, p, dir)
		time.Sleep(time.Second)
		if s := second.Status(); pickedOf(t, second) != 20 || !strings.Contains(s.KeepError, "a folder of its own") {
			t.Errorf("the second: %+v", s)
		}
		p.publish(payments(p.epoch, 11, several(5, 5)...))
		time.Sleep(time.Second)
		if s := second.Status(); pickedOf(t, second) != 5 || !strings.Contains(s.KeepError, "a folder of its own") {
			t.Errorf("the second: %+v", s)
		}
		if s := r.Status(); s.KeepError != "" || s.Services[0].Keeps.Counter != 11 {
			t.Errorf("the first: %+v", s)
		}
		closed(t, r)
		time.Sleep(2 * time.Second)
		if s := second.Status(); s.KeepError != "" || s.Services[0].Keeps.Counter != 11 {
			t.Errorf("the second, after the first has ended: %+v", s)
		}
		closed(t, second)
	})
}
