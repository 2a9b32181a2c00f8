package stream

import (
	"slices"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// replace makes f the only stream of its gateway; an older one is ended.
func (s *Server) replace(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.streams[f.name]; old != nil {
		s.cfg.Log.Info("a gateway follows anew", "gateway", f.name)
		old.end(&pb.FollowRefusal{Reason: "another stream of this gateway replaced this one"})
	}
	s.streams[f.name] = f
}

// enter makes an admitted gateway known. It is false when f was replaced or
// dismissed meanwhile.
func (s *Server) enter(f *follower, g service.GatewayState, e view.Epoch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[f.name] != f || f.ctx.Err() != nil {
		return false
	}
	if old := s.members[f.name]; old != nil {
		g.Sent, g.Drifts = old.state.Sent, old.state.Drifts
	}
	s.compareLocked(&g, false)
	s.members[f.name] = &member{state: g, stream: f, heard: s.cfg.Clock()}
	s.cfg.Log.Info("a gateway follows", "gateway", g.Name, "session", g.Session, "serves", g.Serves, "keeps", g.Keeps, "epoch", e)
	s.changedLocked()
	return true
}

func (s *Server) leave(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[f.name] == f {
		delete(s.streams, f.name)
	}
	if m := s.members[f.name]; m != nil && m.stream == f && m.state.Connected {
		m.state.Connected = false
		s.cfg.Log.Info("a gateway is no longer connected", "gateway", f.name)
		s.changedLocked()
	}
}

// forget ends the membership of a gateway that said goodbye.
func (s *Server) forget(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[f.name]; m != nil && m.stream == f {
		delete(s.members, f.name)
		s.changedLocked()
	}
}

// hear notes that something came; a stream that was replaced speaks for nobody.
func (s *Server) hear(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[f.name]; m != nil && m.stream == f {
		m.heard = s.cfg.Clock()
	}
}

func (s *Server) acknowledge(f *follower, a *pb.FollowAck, e view.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[f.name]
	if m == nil || m.stream != f {
		return
	}
	g := &m.state
	was := g.Drifted
	g.Serves, g.ServesDigest = wire.Version(a.GetServes().GetVersion()), a.GetServes().GetDigest()
	s.compareLocked(g, was)
	g.Keeps = wire.Version(a.GetKeeps().GetVersion())
	g.KeepError = a.GetKeepError()
	g.Refused = nil
	for _, r := range a.GetRefused() {
		if g.Refused == nil {
			g.Refused = map[string]string{}
		}
		g.Refused[r.GetService()] = r.GetReason()
	}
	if g.Keeps.Incarnation == e.Incarnation && g.Keeps.Epoch == e.Number {
		g.Epoch = e
	}
	s.changedLocked()
}

// beat takes which hosts poll the gateway, and what waits there. Queues grow and
// shrink: who cares about them looks.
func (s *Server) beat(f *follower, b *pb.FollowBeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[f.name]
	if m == nil || m.stream != f {
		return
	}
	m.state.Waiting = nil
	for _, w := range b.GetWaiting() {
		if m.state.Waiting == nil {
			m.state.Waiting = map[string]int{}
		}
		m.state.Waiting[w.GetService()] += int(w.GetRequests())
	}
	if hosts := b.GetHosts(); !slices.Equal(m.state.Polled, hosts) {
		m.state.Polled = slices.Clone(hosts)
		s.changedLocked()
	}
}

// compareLocked holds what a gateway says that it serves against what was
// offered under that number. One that asks for everything, as what it holds fits
// no delta, has found so itself.
func (s *Server) compareLocked(g *service.GatewayState, was bool) {
	g.Drifted = false
	if s.newest == nil || g.Serves.Zero() || g.Serves.Incarnation != s.newest.Version.Incarnation {
		return
	}
	if g.ServesDigest == "" {
		g.Drifted = true
	}
	for _, t := range s.recent {
		if t.Version == g.Serves {
			g.Drifted = t.Digest.String() != g.ServesDigest
		}
	}
	if g.Drifted && !was {
		g.Drifts++
		s.cfg.Log.Warn("a gateway serves other routes than were offered under the number of its table", "gateway", g.Name, "table", g.Serves)
	}
}

// drifted says that the follower needs everything anew.
func (s *Server) drifted(f *follower) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[f.name]
	return m != nil && m.stream == f && m.state.Drifted
}
