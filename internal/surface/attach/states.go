package attach

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
)

// trust is how long after a host was last heard its instances are taken to be
// live still: it beats each second.
const trust = 2 * time.Second

// endedFor is for how long it is known of an instance that its host told of its
// end, once the host speaks of it no more. Who watches looks each second.
const endedFor = time.Minute

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// attached is one host that has attached since this process leads.
type attached struct {
	host      service.Host
	conn      *conn // nil when it is not connected
	heard     time.Time
	reported  bool
	leaving   bool // it said so, on its newest stream
	left      bool // it said that nothing that it ran runs any more
	room      *pb.HostRoom
	answers   uint64
	instances map[string]told      // :: instance → what was told of it
	ended     map[string]time.Time // :: instance that is told of no more → when its end was known
}

// told is one instance, and when that was true.
type told struct {
	service.Instance
	at time.Time
}

// join makes the stream the host's only one. Nil means that the leading under
// which it was admitted has ended meanwhile.
func (s *Server) join(h service.Host, hello *pb.HostHello, turn int) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if turn != s.turn {
		return nil
	}
	c := newConn(h.Name)
	a := s.hosts[h.Name]
	if a == nil {
		a = &attached{instances: map[string]told{}, ended: map[string]time.Time{}}
		s.hosts[h.Name] = a
	}
	if a.conn != nil {
		a.conn.end("another stream of this host took its place")
	}
	a.host, a.conn, a.heard, a.reported = h, c, s.cfg.Now(), false
	a.leaving, a.left, a.room = hello.GetLeaving(), false, hello.GetRoom()
	if s.gateways != nil {
		c.out <- gatewaysMessage(s.gateways) // the queue is new: there is room
	}
	for _, o := range s.orders {
		o.joinLate(c)
	}
	s.changedLocked()
	s.log.Info("host is attached", "name", h.Name, "zone", h.Zone)
	return c
}

func (s *Server) leave(c *conn) {
	c.end("")
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.hosts[c.name]; a != nil && a.conn == c {
		a.conn = nil
		s.changedLocked()
		s.log.Info("host is no longer attached", "name", c.name) // the leader warns once it is lost
	}
}

func (s *Server) heard(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.hosts[c.name]; a != nil && a.conn == c {
		a.heard = s.cfg.Now()
	}
}

// says takes in what a host says of itself as a whole.
func (s *Server) says(c *conn, room *pb.HostRoom, leaving *pb.HostLeaving) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.hosts[c.name]
	if a == nil || a.conn != c {
		return
	}
	if room != nil {
		changed := room.GetRefuses() != a.room.GetRefuses()
		if a.room = room; !changed {
			return
		}
	}
	if leaving != nil {
		a.leaving, a.left = true, leaving.GetStopped()
		s.log.Info("host leaves", "name", c.name, "stopped", a.left)
	}
	if a.left {
		clear(a.instances)
		c.end("")
	}
	s.changedLocked()
}

// report takes in what a host says; a full report replaces all.
func (s *Server) report(c *conn, r *pb.HostReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.hosts[c.name]
	if a == nil || a.conn != c {
		return
	}
	now := s.cfg.Now()
	maps.DeleteFunc(a.ended, func(_ string, at time.Time) bool { return now.Sub(at) > endedFor })
	if r.GetFull() {
		a.forget(now)
		a.reported = true
		a.answers++
	}
	for _, in := range r.GetInstances() {
		delete(a.ended, in.GetId())
		a.instances[in.GetId()] = told{instanceOf(in, a.host), now}
	}
	for _, id := range r.GetGone() {
		delete(a.instances, id)
		a.ended[id] = now
	}
	s.changedLocked()
}

// forget drops what was told, before all is told anew; an end that was told stays
// known.
func (a *attached) forget(now time.Time) {
	for id, t := range a.instances {
		if t.State == service.InstanceExited {
			a.ended[id] = now
		}
	}
	clear(a.instances)
}

func instanceOf(r *pb.InstanceReport, h service.Host) service.Instance {
	return service.Instance{
		ID: r.GetId(), Slot: r.GetSlot(), Service: r.GetService(), Revision: r.GetRevision(), Minted: r.GetMinted(),
		Host: h.Name, Zone: h.Zone, Address: r.GetAddress(), State: service.InstanceState(r.GetState()),
		Pid: int(r.GetPid()), Restarts: int(r.GetRestarts()), Round: r.GetRound(),
		LiveFor: r.GetLiveFor().AsDuration(), Detail: r.GetDetail(), LastLines: r.GetLastLines(),
		ExitStatus: r.GetExitStatus(), Adopted: r.GetAdopted(), Before: r.GetBefore(), Word: wire.Word(r.GetWord()), Away: awayOf(r.GetAway()),
	}
}

// awayOf is nil where none is.
func awayOf(list []*pb.CreditsAway) map[string]int {
	var out map[string]int
	for _, a := range list {
		if out == nil {
			out = map[string]int{}
		}
		out[a.GetGateway()] += int(a.GetCredits())
	}
	return out
}

// States returns every host that has attached, ordered by name. LiveFor is as
// of now while the host is heard: whatever ends it is reported at once.
func (s *Server) States() []service.HostState {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	out := make([]service.HostState, 0, len(s.hosts))
	for _, name := range slices.Sorted(maps.Keys(s.hosts)) {
		out = append(out, s.hosts[name].state(now))
	}
	return out
}

func (a *attached) state(now time.Time) service.HostState {
	st := service.HostState{
		Host: a.host, Connected: a.conn != nil, Silent: now.Sub(a.heard), Reported: a.reported,
		Leaving: a.leaving, Left: a.left, Free: a.room.GetFreeBytes(), Refuses: a.room.GetRefuses(),
		Instances: make([]service.Instance, 0, len(a.instances)),
		Answers:   a.answers, Ended: slices.Sorted(maps.Keys(a.ended)),
	}
	until := now
	if !st.Connected || st.Silent > trust {
		until = a.heard
	}
	for _, t := range a.instances {
		in := t.Instance
		if in.State == service.InstanceLive {
			in.LiveFor += max(until.Sub(t.at), 0)
		}
		st.Instances = append(st.Instances, in)
	}
	slices.SortFunc(st.Instances, func(x, y service.Instance) int { return strings.Compare(x.ID, y.ID) })
	return st
}

// Changed is closed at the next change of States. Silent and LiveFor grow
// without one.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
