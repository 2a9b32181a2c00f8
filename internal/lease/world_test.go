package lease_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/lease"
	"github.com/fairlead-platform/fairlead/view"
)

// world is what a gateway keeps around its rooms, for scripts and properties:
// one service, its groups, and who holds which lease.
type world struct {
	now     time.Duration
	chooser *lease.Chooser
	splits  []view.Split
	rooms   map[string]*lease.Queue    // :: group → room
	group   map[string]string          // :: instance → group
	asks    map[string]*lease.Request  // :: request → its place
	where   map[string]string          // :: request → group
	held    map[string]*lease.Instance // :: request → leased instance
	answers map[string]int             // :: request → answers got
	out     strings.Builder
	// displaced choose again once the table is in force in every room.
	displaced []string
	onGrant   func(name string, c lease.Command) // for properties
	standings map[string]lease.Standing          // :: instance → what the view says
}

func newWorld() *world {
	return &world{
		chooser: lease.NewChooser(nil), rooms: map[string]*lease.Queue{}, group: map[string]string{},
		asks: map[string]*lease.Request{}, where: map[string]string{},
		held: map[string]*lease.Instance{}, answers: map[string]int{},
	}
}

func (w *world) take() string {
	s := w.out.String()
	w.out.Reset()
	return s
}

func (w *world) say(format string, a ...any) { fmt.Fprintf(&w.out, format+"\n", a...) }

func (w *world) room(group string) *lease.Queue {
	if w.rooms[group] == nil {
		w.rooms[group] = lease.NewQueue()
	}
	return w.rooms[group]
}

// obey carries commands out as a gateway does.
func (w *world) obey(group string, cs []lease.Command) {
	for _, c := range slices.Clone(cs) {
		switch c.Verb {
		case lease.Grant:
			name := c.Request.Owner.(string)
			w.held[name] = c.Instance
			w.answers[name]++
			w.say("grant %s → %s under %s", name, c.Instance.ID, c.Rules.Text)
			if w.onGrant != nil {
				w.onGrant(name, c)
			}
		case lease.Reject:
			name := c.Request.Owner.(string)
			w.answers[name]++
			w.say("reject %s: %s", name, c.Reason)
		case lease.Displace:
			w.say("displace %s from %s", c.Request.Owner, group)
			w.displaced = append(w.displaced, c.Request.Owner.(string))
		case lease.Demand:
			w.say("demand %s %d", group, c.N)
		case lease.Return, lease.Refuse:
			w.say("%s %s %d", c.Verb, c.Instance.ID, c.N)
		default:
			w.say("%s %s", c.Verb, c.Instance.ID)
		}
	}
}

func (w *world) choose(name string, draw uint32, again bool) {
	r := w.asks[name]
	i := w.chooser.Choose(r.Tag, draw)
	if i < 0 {
		w.answers[name]++
		w.say("reject %s: no route", name)
		return
	}
	g := w.splits[i].Group
	w.where[name] = g
	if again {
		w.obey(g, w.room(g).Rejoin(r, w.now))
		return
	}
	w.obey(g, w.room(g).Arrive(r, w.now))
}

// table VERSION [GROUP=PERCENT:REVISION[@LIFE],REVISION[:TAG]]... [max=N]
func (w *world) table(f []string) error {
	v, err := view.ParseVersion(f[0])
	if err != nil {
		return err
	}
	route := view.Route{Service: "hello"}
	for _, a := range f[1:] {
		name, val, _ := strings.Cut(a, "=")
		if name == "max" {
			route.Limits.MaxWaiting, err = strconv.Atoi(val)
			if err != nil {
				return err
			}
			continue
		}
		p := strings.Split(val+"::", ":")
		percent, err := strconv.Atoi(p[0])
		if err != nil {
			return err
		}
		s := view.Split{Percent: percent, Group: name, Tag: p[2]}
		for _, who := range strings.Split(p[1], ",") {
			revision, minted, _ := strings.Cut(who, "@")
			s.Allowed, s.Minted = append(s.Allowed, revision), append(s.Minted, minted)
		}
		route.Splits = append(route.Splits, s)
	}
	w.apply(v, route)
	return nil
}

func (w *world) apply(v view.Version, route view.Route) {
	w.splits, w.chooser = route.Splits, lease.NewChooser(route.Splits)
	rules := lease.RulesOf(v, route)
	for g := range rules {
		w.room(g)
	}
	for _, g := range slices.Sorted(maps.Keys(w.rooms)) {
		if rules[g] != nil {
			w.obey(g, w.room(g).Govern(rules[g]))
		}
	}
	for _, g := range slices.Sorted(maps.Keys(w.rooms)) {
		if rules[g] == nil {
			w.obey(g, w.room(g).Govern(nil))
		}
	}
	again := w.displaced
	w.displaced = nil
	for _, name := range again {
		w.choose(name, 0, true)
	}
}

// offer INSTANCE REVISION[@LIFE] GROUP GRANT
func (w *world) offer(f []string) error {
	n, err := strconv.Atoi(f[3])
	if err != nil {
		return err
	}
	w.group[f[0]] = f[2]
	revision, minted, _ := strings.Cut(f[1], "@")
	_, cs := w.room(f[2]).Offer(f[0], revision, minted, n)
	w.obey(f[2], cs)
	return nil
}

// arrive REQUEST... [tag=T] [draw=PERCENT] [by=AGE]
func (w *world) arrive(f []string) error {
	tag, draw, by := "", uint32(0), time.Minute
	for _, a := range f {
		name, val, opt := strings.Cut(a, "=")
		switch {
		case !opt:
		case name == "tag":
			tag = val
		case name == "by":
			d, err := time.ParseDuration(val)
			if err != nil {
				return err
			}
			by = d
		case name == "draw":
			n, err := strconv.Atoi(val)
			if err != nil {
				return err
			}
			draw = uint32(uint64(n) << 32 / 100)
		}
	}
	for _, a := range f {
		if !strings.Contains(a, "=") {
			w.asks[a] = &lease.Request{Arrived: w.now, Deadline: w.now + by, Tag: tag, Owner: a}
			w.choose(a, draw, false)
			w.now++ // no two arrive at once
		}
	}
	return nil
}

// resend REQUEST: its lease failed and ends; it asks for another.
func (w *world) resend(f []string) error {
	in := w.held[f[0]]
	w.asks[f[0]].Avoid = in
	if err := w.end(f); err != nil {
		return err
	}
	w.answers[f[0]]--
	w.choose(f[0], 0, true)
	return nil
}

func (w *world) end(f []string) error {
	for _, name := range f {
		in := w.held[name]
		if in == nil {
			return fmt.Errorf("%s holds no lease", name)
		}
		delete(w.held, name)
		g := w.group[in.ID]
		w.obey(g, w.room(g).End(in))
	}
	return nil
}

func (w *world) refused(f []string) error {
	in := w.held[f[0]]
	delete(w.held, f[0])
	g := w.group[in.ID]
	w.obey(g, w.room(g).Refused(in))
	w.answers[f[0]]--
	w.choose(f[0], 0, true)
	return nil
}

func (w *world) hangup(f []string) error {
	g := w.where[f[0]]
	waited, cs := w.room(g).Leave(w.asks[f[0]])
	if waited {
		w.answers[f[0]]++
		w.say("left %s", f[0])
	}
	w.obey(g, cs)
	return nil
}

// at AGE: the clock moves on, and every waiting request's timer is looked at.
func (w *world) at(f []string) error {
	d, err := time.ParseDuration(f[0])
	if err != nil {
		return err
	}
	w.now = d
	for _, name := range slices.Sorted(maps.Keys(w.asks)) {
		if g, ok := w.where[name]; ok {
			w.obey(g, w.room(g).Expire(w.asks[name], w.now))
		}
	}
	return nil
}

// view [INSTANCE=WEIGHT[a][m]]... where m marks its zone, and a says that another
// is preferred; without any it is no view
func (w *world) view(f []string) error {
	w.standings = nil
	for _, a := range f {
		id, val, _ := strings.Cut(a, "=")
		weight, marked := strings.CutSuffix(val, "m")
		weight, away := strings.CutSuffix(weight, "a")
		n, err := strconv.Atoi(weight)
		if err != nil {
			return err
		}
		if w.standings == nil {
			w.standings = map[string]lease.Standing{}
		}
		w.standings[id] = lease.Standing{Weight: n, Marked: marked, Away: away}
	}
	for _, g := range slices.Sorted(maps.Keys(w.rooms)) {
		w.obey(g, w.room(g).Consider(w.standings))
	}
	return nil
}

func (w *world) relent([]string) error {
	for _, g := range slices.Sorted(maps.Keys(w.rooms)) {
		w.obey(g, w.room(g).Relent(w.now))
	}
	return nil
}

func (w *world) terminating(f []string) error {
	g := w.group[f[0]]
	w.obey(g, w.room(g).Terminate(f[0]))
	return nil
}

func (w *world) gone(f []string) error {
	g := w.group[f[0]]
	w.obey(g, w.room(g).Gone(f[0]))
	return nil
}

func (w *world) recall(f []string) error {
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	g := w.group[f[0]]
	w.obey(g, w.room(g).Recall(f[0], n))
	return nil
}

// draw: what the rooms hold.
func (w *world) draw([]string) error {
	for _, g := range slices.Sorted(maps.Keys(w.rooms)) {
		q := w.rooms[g]
		head := "no table leads here"
		if r := q.Rules(); r != nil {
			head = fmt.Sprintf("table %s allows %s", r.Text, allowed(r))
		}
		w.say("%s: %s; waiting %d, free %d", g, head, q.Waiting(), q.Free())
		for _, in := range q.Instances() {
			w.say("  %s %s %-11s %s%s", in.ID, withLife(in.Revision, in.Minted), in.State(),
				strings.Repeat("●", in.InUse()), strings.Repeat("○", max(0, in.Owned()-in.InUse())))
		}
	}
	return nil
}

// allowed says who may lease, as the script named them.
func allowed(r *lease.Rules) string {
	var out []string
	for i, name := range r.Splits[0].Allowed {
		if minted := r.Splits[0].Minted[i]; r.Allows(name, minted) {
			out = append(out, withLife(name, minted))
		}
	}
	return strings.Join(out, ",")
}

func withLife(name, minted string) string {
	if minted == "" {
		return name
	}
	return name + "@" + minted
}
