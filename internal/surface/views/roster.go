package views

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/budget"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	// MostRows of one answer about who holds a view.
	MostRows = 1000
	// rosterWait bounds how long relays are waited for.
	rosterWait = 2 * time.Second
)

// ask waits for the rosters of relays.
type ask struct {
	from map[*subscriber]bool // who has not answered
	rows []service.ViewHolder
	more int
	lost []string      // who left instead
	done chan struct{} // closed when nobody is left
}

// Holding says who holds a service's view, and at which version: those here
// and, by their relays' word, those there.
func (s *Server) Holding(ctx context.Context, of string, most int) service.Holding {
	most = min(cmp.Or(max(most, 0), MostRows), MostRows)
	out, a, number := s.askRelays(of, most)
	if a != nil {
		timer := time.NewTimer(rosterWait)
		defer timer.Stop()
		select { // all have answered, or have had their time
		case <-a.done:
		case <-timer.C:
		case <-ctx.Done():
		}
		s.mu.Lock()
		out.Rows, out.More = append(out.Rows, a.rows...), out.More+a.more
		out.Unheard = a.lost
		for sub := range a.from {
			out.Unheard = append(out.Unheard, sub.role+"/"+sub.name)
		}
		delete(s.asks, number)
		s.mu.Unlock()
		slices.Sort(out.Unheard)
	}
	slices.SortFunc(out.Rows, behindFirst)
	if over := len(out.Rows) - most; over > 0 {
		out.Rows, out.More = out.Rows[:most], out.More+over
	}
	return out
}

// askRelays is what is known here; ask is nil where no relay is to be asked.
func (s *Server) askRelays(of string, most int) (out service.Holding, a *ask, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out = s.holdingLocked(of, most)
	t := s.topics[of]
	if t == nil {
		return out, nil, 0
	}
	a = &ask{from: map[*subscriber]bool{}, done: make(chan struct{})}
	s.asked++
	for h := range t.holders.all() {
		if sub := h.sub; sub.relays() && h.tally.subscribers+h.tally.refused > 0 {
			a.from[sub] = true
			sub.asks = append(sub.asks, &pb.RosterWanted{Ask: s.asked, Service: of, Most: uint32(most)})
			sub.stir()
		}
	}
	if len(a.from) == 0 {
		return out, nil, 0
	}
	s.asks[s.asked] = a
	return out, a, s.asked
}

func (s *Server) holdingLocked(of string, most int) service.Holding {
	now, at := s.now(), s.cfg.Clock()
	out := service.Holding{Service: of}
	t := s.topics[of]
	if t != nil {
		if t.newest != nil {
			out.Published = t.newest.Version
		}
		all := t.tallyLocked()
		out.Callers, out.Refused = all.subscribers, t.refusedLocked(of)
		for _, v := range all.versions {
			since, _ := t.ledger.Since(v.number)
			x := service.VersionHeld{Version: s.version(v.number), Holders: v.count}
			if newer := t.newest != nil && v.number.Before(budget.NumberOf(t.newest.Version)); newer {
				x.Behind = max(now-since, 1)
			}
			out.Versions = append(out.Versions, x)
		}
	}
	for _, sub := range s.subscribers {
		if h := sub.holds[of]; h != nil && !sub.relays() && (!h.barred || s.refusedLocked(sub, t, h) > 0) {
			out.Rows = append(out.Rows, s.rowLocked(sub, t, h, now, at))
		}
	}
	slices.SortFunc(out.Rows, behindFirst)
	if over := len(out.Rows) - most; over > 0 {
		out.Rows, out.More = out.Rows[:most], over
	}
	return out
}

func (s *Server) version(n budget.Number) view.Version {
	return view.Version{Region: s.region, Incarnation: s.epoch.Incarnation, Epoch: n.Epoch, Counter: n.Counter}
}

func (s *Server) rowLocked(sub *subscriber, t *topic, h *holding, now time.Duration, at time.Time) service.ViewHolder {
	out := service.ViewHolder{
		Role: sub.role, Name: sub.name, Library: sub.hello.GetLibrary(), Connected: sub.open, Version: h.applied, Objection: h.objection,
		Silent: at.Sub(sub.heard), Missing: sub.missing(), Refused: s.refusedLocked(sub, t, h), Away: awayOf(sub.hello.GetAway()),
	}
	if t != nil && t.newest != nil {
		if out.Current = t.newest.Version == h.applied; !out.Current {
			since, _ := t.ledger.Since(budget.NumberOf(h.applied))
			out.Behind = max(now-since, 1)
		}
	}
	return out
}

// behindFirst are who is behind, the longest first, then all others by name.
func behindFirst(a, b service.ViewHolder) int {
	return cmp.Or(cmp.Compare(b.Behind, a.Behind), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name))
}

// Roster is what a relay answers when it is asked who its subscribers are.
func (s *Server) Roster(wanted *pb.RosterWanted) *pb.Roster {
	most := min(cmp.Or(int(wanted.GetMost()), MostRows), MostRows)
	s.mu.Lock()
	all := s.holdingLocked(wanted.GetService(), most)
	s.mu.Unlock()
	out := &pb.Roster{Ask: wanted.GetAsk(), Service: wanted.GetService(), More: uint32(all.More)}
	for _, r := range all.Rows {
		out.Entries = append(out.Entries, &pb.RosterEntry{
			Role: r.Role, Name: r.Name, Library: r.Library, Epoch: r.Version.Epoch, Counter: r.Version.Counter, Connected: r.Connected,
			BehindMs: uint64(r.Behind.Milliseconds()), SilentMs: uint64(r.Silent.Milliseconds()), Objection: r.Objection, Missing: r.Missing,
			Away: awayProto(r.Away), RefusedMs: uint64((r.Refused + time.Millisecond - 1).Milliseconds()),
		})
	}
	return out
}

// rosterLocked takes a relay's answer. One that nobody asked for is passed over.
func (s *Server) rosterLocked(sub *subscriber, m *pb.Roster) error {
	if !sub.relays() {
		return status.Errorf(codes.PermissionDenied, "only a relay speaks for others, and %s/%s is none", sub.role, sub.name)
	}
	a := s.asks[m.GetAsk()]
	if a == nil || !a.from[sub] {
		return nil
	}
	t := s.topics[m.GetService()]
	for _, e := range m.GetEntries()[:min(len(m.GetEntries()), MostRows)] {
		row := service.ViewHolder{
			Role: e.GetRole(), Name: e.GetName(), Via: sub.name, Library: e.GetLibrary(), Connected: e.GetConnected(),
			Behind: millis(e.GetBehindMs()), Silent: millis(e.GetSilentMs()), Objection: e.GetObjection(), Missing: e.GetMissing(),
			Refused: millis(e.GetRefusedMs()), Away: awayOf(e.GetAway()),
		}
		if e.GetCounter() > 0 {
			row.Version = s.version(budget.Number{Epoch: e.GetEpoch(), Counter: e.GetCounter()})
		}
		row.Current = t != nil && t.newest != nil && row.Version == t.newest.Version
		a.rows = append(a.rows, row)
	}
	a.more += int(min(m.GetMore(), 1<<24))
	a.answeredLocked(sub)
	return nil
}

func awayProto(a *service.Away) *pb.AwayReport {
	if a == nil {
		return nil
	}
	return &pb.AwayReport{AwayMs: uint64(a.For.Milliseconds()), Calls: a.Calls, Failed: a.Failed, Unroutable: a.Unroutable}
}

func millis(n uint64) time.Duration { return time.Duration(min(n, 1<<40)) * time.Millisecond }

func (a *ask) answeredLocked(sub *subscriber) {
	if !a.from[sub] {
		return
	}
	if delete(a.from, sub); len(a.from) == 0 {
		close(a.done)
	}
}

// unaskLocked waits no longer for who has left.
func (s *Server) unaskLocked(sub *subscriber) {
	for _, a := range s.asks {
		if a.from[sub] {
			a.lost = append(a.lost, sub.role+"/"+sub.name)
			a.answeredLocked(sub)
		}
	}
}
