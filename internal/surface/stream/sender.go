package stream

import (
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// send welcomes the gateway, then sends one coalesced delta whenever it can,
// from what it sent last to the newest.
func (f *follower) send(epoch view.Epoch, held *pb.Held) error {
	welcome := &pb.FollowWelcome{Epoch: wire.EpochProto(epoch)}
	if err := f.stream.Send(&pb.FollowResponse{Message: &pb.FollowResponse_Welcome{Welcome: welcome}}); err != nil {
		return err
	}
	beat := time.NewTicker(f.s.cfg.Beat)
	defer beat.Stop()
	var last *view.Table
	for {
		t, offered := f.s.next(f)
		if t != nil && t != last {
			m, err := f.s.frame(f, last, held, t)
			if err != nil {
				return err
			}
			if err := f.stream.SendMsg(m); err != nil {
				return err
			}
			last = t
			continue
		}
		select {
		case <-offered:
		case <-beat.C:
			if err := f.stream.Send(&pb.FollowResponse{Message: &pb.FollowResponse_Beat{Beat: &pb.FollowBeat{}}}); err != nil {
				return err
			}
		case <-f.ctx.Done():
			return f.lastWord()
		}
	}
}

// lastWord tells a follower that was ended from here why.
func (f *follower) lastWord() error {
	f.once.Do(func() {})
	if f.refusal == nil || f.stream.Context().Err() != nil {
		return f.ctx.Err()
	}
	return f.stream.Send(&pb.FollowResponse{Message: &pb.FollowResponse_Refusal{Refusal: f.refusal}})
}

// next is the newest table, recorded as sent before it is: what is sent may
// arrive although sending it fails. The channel is closed at the next Offer.
func (s *Server) next(f *follower) (*view.Table, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[f.name]; s.newest != nil && m != nil && m.stream == f {
		m.state.Sent = s.newest.Version
	}
	return s.newest, s.offered
}

// frameKey names a delta: from a table that is known by its digest, or (by an
// empty one) by sequence, or (by a zero base) from nothing.
type frameKey struct {
	base   view.Version
	digest string
	to     view.Version
}

// frame is one delta, encoded once for all who need it.
type frame struct {
	once sync.Once
	msg  grpc.PreparedMsg
	err  error
}

// frame returns the encoded delta to t for a follower: from the table that was
// last sent to it, or else from what it said that it holds. Where it holds
// something else than that, it is sent everything.
func (s *Server) frame(f *follower, last *view.Table, held *pb.Held, t *view.Table) (*grpc.PreparedMsg, error) {
	switch {
	case s.drifted(f):
		last, held = nil, nil
	case last == nil:
		last = s.retained(held, t)
	}
	key, delta := choose(last, held, t)
	s.mu.Lock()
	fr := s.frames[key]
	if fr == nil {
		fr = &frame{}
		s.frames[key] = fr
	}
	s.mu.Unlock()
	fr.once.Do(func() {
		m := &pb.FollowResponse{Message: &pb.FollowResponse_Routes{Routes: wire.DeltaProto(delta())}}
		fr.err = fr.msg.Encode(f.stream, m)
	})
	return &fr.msg, fr.err
}

// choose picks the delta that costs least and is sure to fit; what only may
// fit is checked by the follower's digest, and it then asks for all.
func choose(last *view.Table, held *pb.Held, t *view.Table) (frameKey, func() view.Delta) {
	v := wire.Version(held.GetVersion())
	switch {
	case last != nil && last.Version.Against(t.Version) != view.Foreign:
		return frameKey{last.Version, last.Digest.String(), t.Version}, func() view.Delta { return t.DeltaFrom(last) }
	case last != nil || v.Zero() || v == t.Version || held.GetDigest() == "":
		return frameKey{to: t.Version}, t.Whole
	}
	d := t.Delta(v, true)
	return frameKey{base: d.Base, to: t.Version}, func() view.Delta { return d }
}

// retained finds the table that a follower says it holds; nil when it is not
// at hand. Who holds the content of t itself needs only the new number.
func (s *Server) retained(held *pb.Held, t *view.Table) *view.Table {
	v, digest := wire.Version(held.GetVersion()), held.GetDigest()
	if v.Zero() || digest == "" || v.Against(t.Version) == view.Foreign || v.Against(t.Version) == view.Newer {
		return nil
	}
	if digest == t.Digest.String() {
		same := *t
		same.Version = v
		return &same
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.recent {
		if r.Version == v && r.Digest.String() == digest {
			return r
		}
	}
	return nil
}
