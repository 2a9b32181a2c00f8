package lease_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
	"pgregory.net/rapid"
)

// ledger is a host's account of the credits it granted.
type ledger struct {
	*world
	granted map[string]int // :: instance → credits granted and not given back
	dead    map[string]bool
	counter uint64
	allowed map[string][]string // :: group → revisions
	t       *rapid.T
	asked   int
}

var (
	groups    = []string{"one", "two", "three"}
	revisions = []string{"hello-00001", "hello-00002"}
	lives     = []string{"", "1", "2"}
)

func newLedger(t *rapid.T) *ledger {
	l := &ledger{
		world: newWorld(), t: t, granted: map[string]int{}, dead: map[string]bool{},
		allowed: map[string][]string{},
	}
	l.onGrant = l.checkGrant
	l.newTable()
	return l
}

// mayLease says that the one split that a group has here names the instance's
// revision, in its life.
func mayLease(c lease.Command) bool {
	s := c.Rules.Splits[0]
	return s.Allowed[0] == c.Instance.Revision &&
		(s.Minted[0] == c.Instance.Minted || s.Minted[0] == "" || c.Instance.Minted == "")
}

// checkGrant holds the promises about one lease.
func (l *ledger) checkGrant(name string, c lease.Command) {
	g := l.where[name]
	if c.Instance.State() != lease.Live || !mayLease(c) {
		l.t.Fatalf("%s got %s of %s (%s), which is not allowed", name, c.Instance.ID, c.Instance.Revision, c.Instance.State())
	}
	if in := c.Instance; in.InUse() > in.Owned() {
		l.t.Fatalf("%s has %d leases on %d credits", in.ID, in.InUse(), in.Owned())
	}
	l.checkStanding(name, c)
	mine := l.asks[name].Arrived
	for other, r := range l.asks {
		if other != name && l.answers[other] == 0 && l.where[other] == g && r.Tag == c.Request.Tag && r.Arrived < mine {
			l.t.Fatalf("%s overtook %s in %s", name, other, g)
		}
	}
}

// checkStanding: one that is out gets no lease while another, which is not, has
// a credit here.
func (l *ledger) checkStanding(name string, c lease.Command) {
	out := func(in *lease.Instance) bool {
		s, known := l.standings[in.ID]
		return known && s.Weight == 0
	}
	if !out(c.Instance) {
		return
	}
	for _, in := range l.rooms[l.where[name]].Instances() {
		if in.State() == lease.Live && c.Rules.Allows(in.Revision, in.Minted) && !out(in) && in.Owned() > 0 {
			l.t.Fatalf("%s got %s, which is out, while %s may answer", name, c.Instance.ID, in.ID)
		}
	}
}

func (l *ledger) newView() {
	var f []string
	for _, id := range slices.Sorted(maps.Keys(l.granted)) {
		if s := rapid.SampledFrom([]string{"", "0", "100", "500", "1000", "1000m"}).Draw(l.t, "standing"); s != "" {
			f = append(f, id+"="+s)
		}
	}
	l.must(l.view(f))
}

func (l *ledger) newTable() {
	l.counter++
	v := view.Version{Incarnation: "7f", Epoch: 1, Counter: l.counter}
	route := view.Route{Service: "hello", Limits: view.Limits{MaxWaiting: rapid.IntRange(1, 4).Draw(l.t, "max")}}
	for _, g := range groups {
		if rapid.Bool().Draw(l.t, "routed") {
			route.Splits = append(route.Splits, view.Split{
				Group: g, Percent: rapid.SampledFrom([]int{0, 50, 100}).Draw(l.t, "percent"),
				Allowed: []string{rapid.SampledFrom(revisions).Draw(l.t, "allowed")},
				Minted:  []string{rapid.SampledFrom(lives).Draw(l.t, "life")},
				Tag:     rapid.SampledFrom([]string{"", "t"}).Draw(l.t, "tag"),
			})
		}
	}
	l.apply(v, route)
}

// settle reads what the rooms said into the account.
func (l *ledger) settle() {
	for line := range strings.Lines(l.take()) {
		var id string
		var n int
		for _, verb := range []string{"return", "refuse"} {
			if k, _ := fmt.Sscanf(line, verb+" %s %d", &id, &n); k == 2 {
				l.granted[id] -= n
			}
		}
	}
	for id, n := range l.granted {
		in := l.rooms[l.group[id]].Instance(id)
		if l.dead[id] {
			continue
		}
		if in == nil || in.Owned() != n {
			l.t.Fatalf("%s: the host counts %d credits here, the room %v", id, n, in)
		}
		if in.InUse() > in.Owned() {
			l.t.Fatalf("%s has %d leases on %d credits", id, in.InUse(), in.Owned())
		}
	}
	for name, n := range l.answers {
		if n > 1 {
			l.t.Fatalf("%s was answered %d times", name, n)
		}
	}
	for g, q := range l.rooms {
		if q.Waiting() > 0 && q.Free() > 0 {
			l.t.Fatalf("%s: %d wait while %d credits are free", g, q.Waiting(), q.Free())
		}
	}
}

// holder draws one that holds a lease on an instance that is not dead, or "".
func (l *ledger) holder() string {
	names := slices.Sorted(maps.Keys(l.held))
	if len(names) == 0 {
		return ""
	}
	return rapid.SampledFrom(names).Draw(l.t, "holder")
}

func (l *ledger) instance() string {
	names := slices.Sorted(maps.Keys(l.granted))
	if len(names) == 0 {
		return ""
	}
	return rapid.SampledFrom(names).Draw(l.t, "instance")
}

func (l *ledger) must(err error) {
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) step() {
	switch rapid.IntRange(0, 13).Draw(l.t, "input") {
	case 0:
		l.newTable()
	case 1, 2:
		id := fmt.Sprintf("i%d", len(l.granted))
		if old := l.instance(); old != "" && !l.dead[old] && rapid.Bool().Draw(l.t, "again") {
			id = old
		}
		if l.group[id] == "" {
			l.group[id] = rapid.SampledFrom(groups).Draw(l.t, "group")
		}
		n := rapid.IntRange(0, 3).Draw(l.t, "grant")
		l.granted[id] += n
		number, err := strconv.Atoi(id[1:])
		l.must(err)
		revision := withLife(revisions[number%2], lives[number/2%3])
		l.must(l.offer([]string{id, revision, l.group[id], fmt.Sprint(n)}))
	case 3, 4, 5:
		l.asked++
		args := []string{fmt.Sprintf("r%d", l.asked), fmt.Sprintf("draw=%d", rapid.IntRange(0, 99).Draw(l.t, "draw"))}
		if rapid.IntRange(0, 3).Draw(l.t, "tagged") == 0 {
			args = append(args, "tag=t")
		}
		l.must(l.arrive(args))
	case 6, 7:
		if h := l.holder(); h != "" {
			l.must(l.end([]string{h}))
		}
	case 8:
		if h := l.holder(); h != "" {
			l.must(l.resend([]string{h}))
		}
	case 9:
		if h := l.holder(); h != "" {
			l.must(l.refused([]string{h}))
		}
	case 10:
		if l.asked > 0 {
			name := fmt.Sprintf("r%d", rapid.IntRange(1, l.asked).Draw(l.t, "caller"))
			if l.where[name] != "" {
				l.must(l.hangup([]string{name}))
			}
		}
	case 11:
		l.disturb()
	case 12:
		l.newView()
	case 13:
		l.now += time.Second
		l.must(l.relent(nil))
	}
}

func (l *ledger) disturb() {
	id := l.instance()
	if id == "" || l.dead[id] {
		return
	}
	switch rapid.IntRange(0, 2).Draw(l.t, "trouble") {
	case 0:
		l.must(l.terminating([]string{id}))
	case 1:
		l.dead[id] = true
		l.must(l.gone([]string{id}))
	case 2:
		l.must(l.recall([]string{id, fmt.Sprint(rapid.IntRange(0, 4).Draw(l.t, "recalled"))}))
	}
}

// Never more leases than credits, allowed revisions only, first come first
// served, exactly one answer each, and a host's account that always agrees.
func TestTheRoomKeepsItsPromisesUnderAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(t)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			l.step()
			l.settle()
		}
		for _, h := range slices.Sorted(maps.Keys(l.held)) {
			l.must(l.end([]string{h}))
			l.settle()
		}
		l.must(l.at([]string{"2h"}))
		for _, h := range slices.Sorted(maps.Keys(l.held)) {
			l.must(l.end([]string{h}))
		}
		l.settle()
		for name := range l.asks {
			if l.answers[name] != 1 {
				t.Fatalf("%s was answered %d times", name, l.answers[name])
			}
		}
	})
}
