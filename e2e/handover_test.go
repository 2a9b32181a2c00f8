package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// handover is one deploy of a soak.
type handover struct {
	old, revision string
	killed        bool          // something was, in its middle
	routes        time.Duration // from the offer to the last acknowledgement
}

// soakTimes is what requests beyond their own work, and the routes step, took.
type soakTimes struct {
	fresh   []handover // of the present round
	routes  [2][]time.Duration
	around  [2][]time.Duration // requests around handovers, calm and with a kill
	slowest [2][]time.Duration // of each handover
	between []time.Duration
	unseen  int
	stuck   []string // requests that took stuckFor or more, and when
}

func (h handover) class() int {
	if h.killed {
		return 1
	}
	return 0
}

var routesLine = regexp.MustCompile(`routes +ok +([0-9.]+) (µs|ms|s)`)

// routesTook reads it out of what a deploy said; zero where it was not said.
func routesTook(out string) time.Duration {
	m := routesLine.FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	d, err := time.ParseDuration(m[1] + m[2])
	if err != nil {
		return 0
	}
	return d
}

func (s *soakTimes) add(h handover) { s.fresh = append(s.fresh, h) }

// stuckFor is how long no request should take, however busy the machine is.
const stuckFor = 5 * time.Second

const clock = "15:04:05.000"

// aside is how far around a handover requests count to it.
const aside = 100 * time.Millisecond

// read takes the times of a round out of the requests of its callers that were
// answered: those around a handover, which is from the first answer of the new
// revision to the last of the old, and those between.
func (s *soakTimes) read(c *caller) {
	first, last := map[string]time.Time{}, map[string]time.Time{} // :: revision → when it answered
	var all []answer
	for _, a := range c.posts {
		if a.err != nil || a.code != 200 {
			continue
		}
		all = append(all, a)
		if took := a.over.Sub(a.sent); took > stuckFor {
			s.stuck = append(s.stuck, fmt.Sprintf("%s to %s, answered by %s", a.sent.Format(clock), a.over.Format(clock), strings.TrimSpace(a.body)))
		}
		r := a.revision()
		if t, ok := first[r]; !ok || a.sent.Before(t) {
			first[r] = a.sent
		}
		if a.over.After(last[r]) {
			last[r] = a.over
		}
	}
	slices.SortFunc(all, func(a, b answer) int { return a.sent.Compare(b.sent) })
	counted := make([]bool, len(all))
	for _, h := range s.fresh {
		if h.routes > 0 {
			s.routes[h.class()] = append(s.routes[h.class()], h.routes)
		}
		from, seen := first[h.revision]
		to := last[h.old]
		if !seen || to.IsZero() {
			s.unseen++
			continue
		}
		if to.Before(from) {
			from, to = to, from
		}
		from, to = from.Add(-aside), to.Add(aside)
		var slowest time.Duration
		for i, a := range all {
			if a.over.Before(from) || a.sent.After(to) {
				continue
			}
			counted[i] = true
			took := a.over.Sub(a.sent) - pace
			slowest = max(slowest, took)
			s.around[h.class()] = append(s.around[h.class()], took)
		}
		s.slowest[h.class()] = append(s.slowest[h.class()], slowest)
	}
	for i, a := range all {
		if !counted[i] {
			s.between = append(s.between, a.over.Sub(a.sent)-pace)
		}
	}
	s.fresh = nil
}

func (s *soakTimes) String() string {
	var b strings.Builder
	b.WriteString("| time | of | p50 | p99 | longest |\n| --- | --- | --- | --- | --- |\n")
	row := func(what string, all []time.Duration) {
		if len(all) == 0 {
			return
		}
		slices.Sort(all)
		at := func(p float64) string {
			return fmt.Sprintf("%.1f ms", float64(all[int(p*float64(len(all)-1))])/float64(time.Millisecond))
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", what, len(all), at(0.5), at(0.99), at(1))
	}
	row("routes offered until acknowledged by both gateways", s.routes[0])
	row("the same, something killed in mid-deploy", s.routes[1])
	row("requests around a handover, beyond their work", s.around[0])
	row("the same, something killed in mid-deploy", s.around[1])
	row("requests between, beyond their work", s.between)
	row("the slowest request of each handover", s.slowest[0])
	row("the same, something killed in mid-deploy", s.slowest[1])
	if n := len(s.stuck); n > 0 {
		fmt.Fprintf(&b, "\n%d requests were answered after %s or more, the first:\n%s\n", n, stuckFor, strings.Join(s.stuck[:min(n, 10)], "\n"))
	}
	if s.unseen > 0 {
		fmt.Fprintf(&b, "\n%d handovers had no answer of one side before and after.\n", s.unseen)
	}
	return b.String()
}
