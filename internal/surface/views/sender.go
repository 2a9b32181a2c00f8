package views

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
	"github.com/fairlead-platform/fairlead/view"
)

// queueLocked has a service looked at by its subscriber's sender, which is to be
// stirred where it says so.
func (h *holding) queueLocked(urgent bool, now time.Duration) bool {
	if h.hurries || h.waits && !urgent {
		return false
	}
	sub := h.sub
	if sub.welcomed && sub.stirred == 0 && sub.sending.Load() == 0 && !sub.waitsLocked() {
		sub.stirred = now
	}
	if h.waits = true; urgent {
		h.hurries = true
		sub.urgent = append(sub.urgent, h) // its place in rest is passed over
	} else {
		sub.rest = append(sub.rest, h)
	}
	return true
}

func (sub *subscriber) stir() {
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}

// send welcomes the subscriber, then sends what there is whenever it can.
func (sub *subscriber) send() error {
	if sub.ctx.Err() != nil { // refused before it was welcome
		return sub.lastWord()
	}
	defer context.AfterFunc(sub.ctx, sub.stir)()
	var beats atomic.Bool
	beat := time.AfterFunc(sub.s.cfg.Beat, func() {
		beats.Store(true)
		sub.stir()
	})
	defer beat.Stop()
	for {
		more, err := sub.sendNext()
		if err != nil {
			return err
		}
		if more {
			continue
		}
		<-sub.wake // there may be something to send, it is time for a beat, or the end
		if sub.ctx.Err() != nil {
			return sub.lastWord()
		}
		if beats.Swap(false) {
			m, next := sub.s.beat(sub)
			if err := sub.stream.Send(&pb.SubscribeResponse{Message: &pb.SubscribeResponse_Beat{Beat: m}}); err != nil {
				return err
			}
			beat.Reset(next)
		}
	}
}

const (
	// beatsPerSecond of all streams together; and no stream is longer without.
	beatsPerSecond = 1000
	longestBeat    = 30 * time.Second
	featureBeats   = "beats"
)

// beat is what a subscriber is told when there is nothing else, and when next.
func (s *Server) beat(sub *subscriber) (m *pb.FollowBeat, next time.Duration) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	next = s.cfg.Beat
	m = &pb.FollowBeat{ShedMs: uint32(s.shed.Milliseconds()), Age: s.age()}
	if slices.Contains(sub.hello.GetFeatures(), featureBeats) {
		next = min(max(next, time.Duration(s.open)*time.Second/beatsPerSecond), max(next, longestBeat))
		m.NextMs = uint32(next.Milliseconds())
	}
	return m, next
}

// newsLocked is what goes before views: the welcome, again under each epoch, and
// what changed of the doors; nil is nothing.
func (s *Server) newsLocked(sub *subscriber) *pb.SubscribeResponse {
	switch {
	case !sub.open:
		return nil
	case sub.welcomed && sub.epoch != s.epoch && sub.epoch.Incarnation == s.epoch.Incarnation:
		sub.epoch = s.epoch
		return &pb.SubscribeResponse{Message: &pb.SubscribeResponse_Welcome{Welcome: &pb.SubscribeWelcome{
			Epoch: &pb.Epoch{Number: s.epoch.Number, Nonce: s.epoch.Nonce},
		}}}
	case !sub.welcomed || sub.epoch != s.epoch:
		sub.welcomed, sub.doors, sub.epoch = true, false, s.epoch
		return &pb.SubscribeResponse{Message: &pb.SubscribeResponse_Welcome{Welcome: &pb.SubscribeWelcome{
			Epoch: wire.EpochProto(s.epoch), Region: s.region, Missing: sub.missing(), Age: s.age(), Doors: s.doors.proto(sub.role),
		}}}
	case sub.doors:
		sub.doors = false
		return &pb.SubscribeResponse{Message: &pb.SubscribeResponse_Doors{Doors: s.doors.proto(sub.role)}}
	}
	return nil
}

// age of what is sent; nil where it comes from here.
func (s *Server) age() *durationpb.Duration {
	if s.cfg.Age == nil {
		return nil
	}
	if age := s.cfg.Age(); age > 0 {
		return durationpb.New(age)
	}
	return nil
}

// missing are the features that views here rely on and the subscriber lacks.
func (sub *subscriber) missing() []string {
	return slices.DeleteFunc(Features(), func(f string) bool { return slices.Contains(sub.hello.GetFeatures(), f) })
}

// lastWord tells a subscriber that was ended from here why.
func (sub *subscriber) lastWord() error {
	sub.once.Do(func() {})
	if sub.refusal == nil || sub.stream.Context().Err() != nil {
		return sub.ctx.Err()
	}
	return sub.stream.Send(&pb.SubscribeResponse{Message: &pb.SubscribeResponse_Refusal{Refusal: sub.refusal}})
}

// sendNext sends one message, if there is one, and says whether there are more.
func (sub *subscriber) sendNext() (more bool, err error) {
	if sub.ctx.Err() != nil {
		return false, nil
	}
	var room [mostTogether]*frame
	frames, other, more := sub.s.next(sub, room[:0])
	switch {
	case other != nil:
		return more, sub.stream.Send(other)
	case len(frames) == 0:
		return false, nil
	}
	err = sub.sendChanges(frames)
	sub.sending.Store(0)
	return more, err
}

func (sub *subscriber) sendChanges(frames []*frame) error {
	if len(frames) == 1 {
		m, err := frames[0].encoded(sub.stream)
		if err != nil {
			return err
		}
		return sub.stream.SendMsg(m)
	}
	m, err := together(frames)
	if err != nil {
		return err
	}
	return sub.stream.Send(m)
}

// refusedAtOnce bounds one message.
const refusedAtOnce = 2000

// next is what there is to send: answers to what it asked, or changes, which are
// put into room; and whether there may be more.
func (s *Server) next(sub *subscriber, room []*frame) (frames []*frame, other *pb.SubscribeResponse, more bool) {
	frames, more, only := s.nextChanges(sub, room)
	if only {
		return frames, nil, more
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other = s.otherLocked(sub); other != nil {
		return nil, other, true
	}
	frames = s.takeAllLocked(sub, room)
	return frames, nil, sub.waitsLocked()
}

// nextChanges is next where there is nothing but changes.
func (s *Server) nextChanges(sub *subscriber, room []*frame) (frames []*frame, more, only bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if sub.open && (!sub.welcomed || sub.epoch != s.epoch || sub.doors) || len(sub.refused)+len(sub.asks) > 0 {
		return nil, false, false
	}
	return s.takeAllLocked(sub, room), sub.waitsLocked(), true
}

// takeAllLocked is take for all services that one message may tell of.
func (s *Server) takeAllLocked(sub *subscriber, room []*frame) []*frame {
	most := 1
	if sub.several {
		most = mostTogether
	}
	for entire := 0; len(room) < most && entire < mostEntire; {
		f := s.takeLocked(sub)
		if f == nil {
			break
		}
		if room = append(room, f); f.base == nil {
			entire += len(f.to.Endpoints)
		}
	}
	return room
}

// otherLocked is what goes before changes; nil is nothing.
func (s *Server) otherLocked(sub *subscriber) *pb.SubscribeResponse {
	if m := s.newsLocked(sub); m != nil {
		return m
	}
	if refused := sub.takeRefused(); refused != nil {
		return &pb.SubscribeResponse{Message: &pb.SubscribeResponse_Refused{Refused: &pb.SubscriptionsRefused{Services: refused}}}
	}
	if len(sub.asks) > 0 {
		wanted := sub.asks[0]
		sub.asks = sub.asks[1:]
		return &pb.SubscribeResponse{Message: &pb.SubscribeResponse_RosterWanted{RosterWanted: wanted}}
	}
	return nil
}

// takeRefused is called with the lock held.
func (sub *subscriber) takeRefused() []*pb.RefusedRoute {
	n := min(len(sub.refused), refusedAtOnce)
	if n == 0 {
		return nil
	}
	out := sub.refused[:n:n]
	sub.refused = sub.refused[n:]
	return out
}

// take is the change of the next service that the subscriber is not current
// of, those that hurry first; it is taken as held from here on. Nil: there is
// none.
func (s *Server) take(sub *subscriber) *frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(sub)
}

func (s *Server) takeLocked(sub *subscriber) *frame {
	now := s.now()
	if sub.stirred > 0 {
		s.delays.Lock()
		s.delays.Add(now-sub.stirred, 1)
		s.delays.Unlock()
		sub.stirred = 0
	}
	for sub.open && sub.epoch == s.epoch { // otherwise it is to be welcomed anew first
		h, urgent := sub.popLocked()
		if h == nil {
			return nil
		}
		if h.dropped || h.hurries && !urgent { // no longer wanted, or sent as urgent
			continue
		}
		t := h.topic
		h.waits, h.hurries = false, false
		if t.newest == nil || h.barred || h.version == t.newest.Version && h.digest == t.digest {
			continue
		}
		base := h.sent
		if base == nil {
			base = t.base(h.version, h.digest)
		}
		if h.version.Against(t.newest.Version) == view.Newer {
			continue // it holds a later one, which it will not give up
		}
		f := t.frame(base, h.digest, s.epoch)
		sub.claims = false
		h.sent, h.version, h.digest = t.newest, t.newest.Version, t.digest
		sub.sending.Store(int64(max(now, 1)))
		return f
	}
	return nil
}

// waitsLocked says that there may be a change to send.
func (sub *subscriber) waitsLocked() bool { return len(sub.urgent)+len(sub.rest) > 0 }

// popLocked is what to look at next; nil is nothing.
func (sub *subscriber) popLocked() (h *holding, urgent bool) {
	switch {
	case len(sub.urgent) > 0:
		h, sub.urgent = sub.urgent[0], sub.urgent[1:]
		return h, true
	case len(sub.rest) > 0:
		h, sub.rest = sub.rest[0], sub.rest[1:]
	}
	return h, false
}
