package discovery

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

// follower takes what is published, as the stream does.
type follower struct {
	r *rig

	mu    sync.Mutex
	lines []string // what was handed over since it was asked last
	last  *view.Service

	missed map[string]string
}

func (f *follower) note(format string, a ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, fmt.Sprintf(format, a...))
}

func (f *follower) Begin(e view.Epoch)    { f.note("begin %d", e.Number) }
func (f *follower) Forget(service string) { f.note("forget %s", service) }
func (f *follower) End()                  { f.note("end") }

// Load is none, and nothing is shed.
func (f *follower) MayPick(string, []string) routing.Pickers { return routing.Pickers{} }

func (f *follower) Load() budget.Load          { return budget.Load{} }
func (f *follower) Shed(time.Duration, string) {}

func (f *follower) say(missed map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed = missed
}

// Missed is what a test says that callers were told too late.
func (f *follower) Missed() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missed
}

func (f *follower) Publish(v *view.Service, nature view.Nature) {
	var ids []string
	for _, e := range v.Endpoints {
		ids = append(ids, e.ID)
	}
	recorded := ""
	for _, x := range f.r.history() {
		if x.Instance == "i1" && x.To.String() == "ineligible" {
			recorded = ", after its record"
		}
	}
	f.note("%s of %d, %d/%d urgent %v%s", strings.Join(ids, " "), v.Marks[0].Counted, v.Version.Epoch, v.Version.Counter, nature.Urgent(), recorded)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = v
}

func (f *follower) take() string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	out := strings.Join(f.lines, "; ")
	f.lines = nil
	return out
}

func (r *rig) expectPublished(f *follower, want string) {
	r.t.Helper()
	if got := f.take(); got != want {
		r.t.Fatalf("handed over:\n%s\nwant:\n%s", got, want)
	}
}

func TestAProcessThatEndedLeavesItsViewBetweenTwoSecondsOnceThatIsRecorded(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(4)
		f := &follower{r: r}
		r.views = f
		l := r.begin()
		defer l.stop()
		time.Sleep(3*time.Second + 300*time.Millisecond)
		r.expectPublished(f, "begin 1; i1 i2 i3 i4 of 4, 1/1 urgent false")
		r.hosts.set("i1", service.InstanceExited)
		time.Sleep(2 * window)
		r.expectPublished(f, "i2 i3 i4 of 4, 1/2 urgent true, after its record")
		time.Sleep(time.Second) // the rest: that it counts no more
		r.expectPublished(f, "i2 i3 i4 of 3, 1/3 urgent false, after its record")
		for _, x := range r.history() {
			if x.Instance == "i1" && x.To.String() == "ineligible" && (x.Rule.String() != "gone" || x.Late || x.State.Judged != x.Tick) {
				t.Errorf("the record is %+v", x)
			}
		}
		l.stop()
		r.expectPublished(f, "end")
	})
}

// bumped is a lead that takes the next epoch in mid-term.
type bumped struct {
	*lead
	by atomic.Uint64
}

func (b *bumped) Epoch() view.Epoch {
	e := b.lead.Epoch()
	e.Number += b.by.Load()
	return e
}

func TestAnEpochThatIsTakenInMidTermNumbersAllViewsAnew(t *testing.T) {
	inRegion(t, func(r *rig) {
		r.hosts.run(2)
		first := r.begin() // for its lead alone
		first.stop()
		f := &follower{r: r}
		ctx, end := context.WithCancel(r.t.Context())
		lead, done := &bumped{lead: first.lead}, make(chan struct{})
		go func() {
			defer close(done)
			New(Config{Store: r.store, Bucket: r.bucket, Hosts: r.hosts, Views: f}).Run(ctx, lead)
		}()
		defer func() { <-done }()
		defer end()
		time.Sleep(3 * time.Second)
		r.expectPublished(f, "begin 1; i1 i2 of 2, 1/1 urgent false")
		lead.by.Add(4)
		time.Sleep(2 * time.Second)
		r.expectPublished(f, "begin 5; i1 i2 of 2, 5/2 urgent false")
	})
}
