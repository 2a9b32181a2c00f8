package views

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/budget"
)

// RoleRelay is the role of who holds views for others: it routes nothing
// itself, and tells how far its own subscribers are.
const RoleRelay = "relay"

// tally is what a relay said last of one service: how many of its subscribers
// there are, and which versions they acknowledged, the newest first.
type tally struct {
	subscribers int
	refused     int // none of them, who may pick by what they held before
	versions    []versionTally
}

type versionTally struct {
	number budget.Number
	count  int
}

// reached is how many have acknowledged a number or one beyond it.
func (t *tally) reached(n budget.Number) (count int) {
	for _, v := range t.versions {
		if v.number.Before(n) {
			break
		}
		count += v.count
	}
	return count
}

func (sub *subscriber) relays() bool { return sub.role == RoleRelay }

// joinLocked makes a subscriber one of those who owe acknowledgements of what is
// published from now on.
func (sub *subscriber) joinLocked(t *topic, h *holding) {
	if t.newest != nil {
		h.owes = budget.NumberOf(t.newest.Version)
	}
	if !sub.relays() {
		t.callers++
	}
}

func (sub *subscriber) leaveLocked(t *topic, h *holding) {
	if sub.relays() {
		t.callers -= h.tally.subscribers
		t.ledger.Reached(h.tally.reached, h.tally.reached, h.tally.subscribers, sub.s.now())
		h.tally = tally{}
		return
	}
	t.callers--
	t.ledger.Leave(h.owes)
}

func (sub *subscriber) acknowledgeLocked(t *topic, h *holding, n budget.Number, now time.Duration) {
	if sub.relays() || !h.owes.Before(n) {
		return
	}
	t.ledger.Acknowledge(h.owes, n, 1, now)
	h.owes = n
}

// mostVersions of one service that a tally may name.
const mostVersions = 64

// tallyLocked takes in how far the subscribers of a relay are. What it says of a
// version beyond the newest is taken for the newest.
func (s *Server) tallyLocked(sub *subscriber, m *pb.RelayTally) error {
	if !sub.relays() {
		return status.Errorf(codes.PermissionDenied, "only a relay speaks for others, and %s/%s is none", sub.role, sub.name)
	}
	now := s.now()
	for _, x := range m.GetServices() {
		h := sub.holds[x.GetService()] // a relay is never barred
		if h == nil {
			continue
		}
		t := h.topic
		next := tallyOf(x)
		t.ledger.Reached(h.tally.reached, next.reached, max(0, h.tally.subscribers-next.subscribers), now)
		t.callers += next.subscribers - h.tally.subscribers
		h.tally = next
	}
	return nil
}

// mostAtRelay subscribers of one relay are believed.
const mostAtRelay = 1 << 24

func tallyOf(x *pb.ServiceTally) tally {
	out := tally{subscribers: int(min(x.GetSubscribers(), mostAtRelay)), refused: int(min(x.GetRefused(), mostAtRelay))}
	left := out.subscribers
	for _, v := range x.GetVersions()[:min(len(x.GetVersions()), mostVersions)] {
		n := min(int(min(v.GetSubscribers(), mostAtRelay)), left)
		left -= n
		out.versions = append(out.versions, versionTally{budget.Number{Epoch: v.GetEpoch(), Counter: v.GetCounter()}, n})
	}
	slices.SortStableFunc(out.versions, func(a, b versionTally) int {
		switch {
		case b.number.Before(a.number):
			return -1
		case a.number.Before(b.number):
			return 1
		}
		return 0
	})
	return out
}

// tallyLocked counts who holds a service's view, by what they acknowledged
// last, the newest first; relays' subscribers in place of relays.
func (t *topic) tallyLocked() tally {
	counts := map[budget.Number]int{}
	out := tally{}
	for h := range t.holders.all() {
		if !h.sub.relays() {
			out.subscribers++
			if !h.applied.Zero() {
				counts[budget.NumberOf(h.applied)]++
			}
			continue
		}
		out.subscribers += h.tally.subscribers
		for _, v := range h.tally.versions {
			counts[v.number] += v.count
		}
	}
	for _, n := range slices.SortedFunc(maps.Keys(counts), func(a, b budget.Number) int {
		if b.Before(a) {
			return -1
		}
		return 1
	}) {
		out.versions = append(out.versions, versionTally{n, counts[n]})
	}
	return out
}

// Tally is what a relay tells of a service's subscribers.
func (s *Server) Tally(service string) *pb.ServiceTally {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := &pb.ServiceTally{Service: service}
	t := s.topics[service]
	if t == nil {
		return out
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.tallyLocked()
	out.Subscribers, out.Refused = uint32(all.subscribers), uint32(t.refusedLocked(service))
	for i, v := range all.versions {
		if i >= mostVersions {
			out.Versions[mostVersions-1].Subscribers += uint32(v.count)
			continue
		}
		out.Versions = append(out.Versions, &pb.VersionTally{Epoch: v.number.Epoch, Counter: v.number.Counter, Subscribers: uint32(v.count)})
	}
	return out
}

// Propagation of a service's views; false: none are published here.
func (s *Server) Propagation(service string) (budget.Report, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.topics[service]
	if t == nil || t.newest == nil {
		return budget.Report{Service: service}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.propagationLocked(service, t), true
}

func (s *Server) propagationLocked(service string, t *topic) budget.Report {
	return budget.Report{
		Service: service, Published: t.newest.Version, Callers: t.callers,
		Latency: slices.Clone(t.ledger.Latency[:]), Promises: t.ledger.Judge(s.now()),
	}
}

// Propagations of all services, in no order.
func (s *Server) Propagations() []budget.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]budget.Report, 0, len(s.topics))
	for name, t := range s.topics {
		if t.newest != nil {
			out = append(out, s.propagationLocked(name, t))
		}
	}
	return out
}

// namedBehind of those who are behind are named.
const namedBehind = 5

// Missed says of which services the budget of withdrawals is missed, and who is
// behind: :: service → words.
func (s *Server) Missed() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	now := s.now()
	for name, t := range s.topics {
		for _, p := range t.ledger.Judge(now) {
			if p.Kind != budget.Withdrawal || !p.Missed() {
				continue
			}
			out[name] = fmt.Sprintf("the withdrawal budget is missed: %d of %d acknowledgements by callers came within %s, promised are %g%%%s",
				p.InTime, p.Due, p.Within, 100*p.Share, s.behindTextLocked(t, now))
			break
		}
	}
	return out
}

// behindTextLocked names who has not acknowledged the last withdrawal.
func (s *Server) behindTextLocked(t *topic, now time.Duration) string {
	last, ok := t.ledger.Last(budget.Withdrawal)
	if !ok {
		return ""
	}
	type late struct {
		who   string
		since time.Duration
	}
	var all []late
	n := 0
	for h := range t.holders.all() {
		sub := h.sub
		behind, who := 0, sub.role+"/"+sub.name
		if sub.relays() {
			if behind = h.tally.subscribers - h.tally.reached(last); behind > 0 {
				who = fmt.Sprintf("%d at %s", behind, who)
			}
		} else if budget.NumberOf(h.applied).Before(last) {
			behind = 1
		}
		if behind == 0 {
			continue
		}
		n += behind
		at, _ := t.ledger.Since(h.owes)
		all = append(all, late{who, now - at})
	}
	if n == 0 {
		return "; nobody is behind now"
	}
	slices.SortFunc(all, func(a, b late) int { return int(b.since - a.since) })
	text := fmt.Sprintf("; %d behind:", n)
	for i, l := range all[:min(len(all), namedBehind)] {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %s (%s)", l.who, l.since.Round(time.Second))
	}
	if len(all) > namedBehind {
		text += " and more: fairlead subscribers names them"
	}
	return text
}

// Load is what there was to send since it was asked last.
func (s *Server) Load() budget.Load {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := s.now()
	out := budget.Load{Subscribers: s.open, Delay: s.delays.most()}
	for _, sub := range s.subscribers {
		if since := time.Duration(sub.sending.Load()); sub.open && since > 0 && now-since > time.Second {
			out.Stuck++
		}
	}
	return out
}

// most is what nine in ten waited less than, since it was asked last.
func (d *delays) most() time.Duration {
	d.Lock()
	defer d.Unlock()
	within, over := d.Quantile(0.9)
	d.Histogram = budget.Histogram{}
	if over {
		return 2 * within
	}
	return within
}

// Shed says for how long what takes no traffic from trouble waits now, and why;
// zero: no longer than it should. Subscribers are told.
func (s *Server) Shed(window time.Duration, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shed, s.shedWhy = window, why
}

// Sheds is what Shed said.
func (s *Server) Sheds() (window time.Duration, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shed, s.shedWhy
}
