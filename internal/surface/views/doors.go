package views

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/admission"
)

// Doors are where one may subscribe, and how many there are known to be who do.
type Doors struct {
	// Relays that serve now, by address.
	Relays []string
	// Population is how many subscribers there are known to be in the region.
	Population int
	// Share is how many one door admits in ten seconds.
	Share int
}

// Equal says whether nothing is to be told anew.
func (d Doors) Equal(o Doors) bool {
	return d.Population == o.Population && d.Share == o.Share && slices.Equal(d.Relays, o.Relays)
}

// perSubscriber is how much time one more subscriber of a door adds to that over
// which all of them spread their return, which is at most a window.
const perSubscriber = time.Millisecond

// spread is over how long those whose streams end at once come back.
func (d Doors) spread() time.Duration {
	return min(admission.Window, time.Duration(d.Population/(len(d.Relays)+1))*perSubscriber)
}

func (d Doors) proto(role string) *pb.Doors {
	out := &pb.Doors{Relays: d.Relays}
	if !roleFirst(role) {
		out.Spread = durationpb.New(d.spread())
	}
	if role == RoleRelay {
		out.Population, out.Share = uint32(d.Population), uint32(d.Share)
	}
	return out
}

// SetDoors says what is told of doors, where it is not counted here: a relay is
// told it. Its share is kept from now on.
func (s *Server) SetDoors(d Doors) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doorsLocked(d)
}

// Doors is what is told of them.
func (s *Server) Doors() Doors {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doors
}

// Remember has so many subscribers known until they were not seen for an hour.
func (s *Server) Remember(population int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.population = admission.Remembered(population, s.now())
	s.countLocked()
}

// Connected is how many subscribers are connected here, relays apart.
func (s *Server) Connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open - s.relaysOpen
}

// Admissions are how many were let in and how many were told to come back, by
// class.
func (s *Server) Admissions() (in, refused [2]uint64) {
	s.gate.Lock()
	defer s.gate.Unlock()
	return s.gate.in, s.gate.refused
}

func (s *Server) doorsLocked(d Doors) {
	s.gate.Lock()
	if s.gate.rule != nil && d.Share > 0 {
		s.gate.rule.SetLimit(d.Share)
	}
	s.gate.Unlock()
	if d.Equal(s.doors) {
		return
	}
	all := !slices.Equal(d.Relays, s.doors.Relays) || d.spread() > 2*s.doors.spread() || 2*d.spread() < s.doors.spread()
	s.doors = d
	for _, sub := range s.subscribers {
		if sub.open && (all || sub.relays()) {
			sub.doors = true
			sub.stir()
		}
	}
}

// countLocked works out the doors from who is connected, where that is for this
// server to do.
func (s *Server) countLocked() {
	if s.cfg.Relay {
		return
	}
	d := Doors{}
	doors := 1
	for _, sub := range s.relays {
		if doors++; sub.state.GetAddress() != "" {
			d.Relays = append(d.Relays, sub.state.GetAddress())
		}
	}
	slices.Sort(d.Relays)
	s.population.See(s.now(), s.connectedLocked())
	d.Population = s.population.Known()
	if grown := d.Population - s.doors.Population; grown >= 0 && grown < s.doors.Population/20 {
		d.Population = s.doors.Population // a small change is not told each time
	}
	d.Share = admission.Share(d.Population, doors)
	s.doorsLocked(d)
}

// connectedLocked is how many subscribers there are, at relays in their place.
func (s *Server) connectedLocked() int {
	n := s.open - s.relaysOpen
	for _, sub := range s.relays {
		n += int(min(sub.state.GetSubscribers(), mostAtRelay))
	}
	return n
}

// Population is how many subscribers there are known to be.
func (s *Server) Population() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countLocked()
	return s.population.Known()
}

// stateLocked takes what a relay says of itself.
func (s *Server) stateLocked(sub *subscriber, m *pb.RelayState) error {
	if !sub.relays() {
		return status.Errorf(codes.PermissionDenied, "only a relay serves others, and %s/%s is none", sub.role, sub.name)
	}
	sub.state = m
	s.relays[sub.name] = sub
	s.countLocked()
	return nil
}

// roleFirst says who is let in first, by certificate.
func roleFirst(role string) bool { return role == "gateway" || role == "host" || role == RoleRelay }

// admit lets a subscriber in, or says when it is to come back. It comes before
// anything that costs.
func (s *Server) admit(role string, hello *pb.SubscribeHello) error {
	c := admission.Rest
	if roleFirst(role) || hello.GetHoldsNothing() {
		c = admission.First
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.gate.rule == nil {
		return nil
	}
	in, retry := s.gate.rule.Ask(s.now(), c)
	if in {
		s.gate.in[c]++
		return nil
	}
	s.gate.refused[c]++
	st := status.Newf(codes.ResourceExhausted, "more subscribers come at once than %d in %s: come back after %s", s.gate.rule.Limit(), admission.Window, retry.Round(time.Millisecond))
	with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	if err != nil {
		return st.Err()
	}
	return with.Err()
}

// turnAway ends a stream of one who is not served here. It comes before
// admission: who is sent elsewhere takes nobody's place.
func (s *Server) turnAway(sub *subscriber, hello *pb.SubscribeHello) bool {
	leader := s.cfg.Leader()
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.hello = hello
	r := s.elsewhereLocked(sub, leader)
	if r != nil {
		sub.end(r)
	}
	return r != nil
}

// elsewhereLocked says where one is served who is not served here: nobody is
// where no views are published, and callers are not while relays serve, unless
// these were tried.
func (s *Server) elsewhereLocked(sub *subscriber, leader string) *pb.FollowRefusal {
	switch {
	case !s.leads && s.cfg.Relay:
		return &pb.FollowRefusal{Reason: "no views are held here: this relay has not heard control yet"}
	case !s.leads:
		return &pb.FollowRefusal{Reason: "no views are published here: this control does not lead, or has only just begun to", Leader: leader}
	case s.leaving != nil:
		return &pb.FollowRefusal{Reason: "this relay is about to end", Others: s.leaving.others}
	case s.cfg.Relay || roleFirst(sub.role) || sub.hello.GetRelaysFailed() || len(s.doors.Relays) == 0:
		return nil
	}
	return &pb.FollowRefusal{Reason: "subscribe at a relay", Others: s.doors.Relays}
}

// leaving is what is told to who subscribes where nobody is served any more.
type leaving struct{ others []string }

// Drain ends every stream with a goodbye that names others, one after the other
// in an order of chance, over a time; who comes meanwhile is sent there at once.
// When ctx ends the rest is told at once, and to come back over what was left.
func (s *Server) Drain(ctx context.Context, over time.Duration, others []string) {
	s.mu.Lock()
	s.leaving = &leaving{others: others}
	var all []*subscriber
	for _, sub := range s.subscribers {
		if sub.open {
			all = append(all, sub)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *subscriber) int { return cmp.Compare(a.name, b.name) })
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	began := s.now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, sub := range all {
		due := began + over*time.Duration(i)/time.Duration(len(all))
		timer.Reset(due - s.now())
		select { // it is this one's turn, or there is no more time for turns
		case <-timer.C:
		case <-ctx.Done():
		}
		r := &pb.FollowRefusal{Reason: "this relay is about to end", Others: others}
		if wait := due - s.now(); wait > 0 {
			r.Retry = durationpb.New(wait)
		}
		sub.end(r)
	}
}

// Left says whether every stream has ended.
func (s *Server) Left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open == 0
}

func (d Doors) String() string {
	return fmt.Sprintf("%d relays, %d subscribers known, %d admitted in %s", len(d.Relays), d.Population, d.Share, admission.Window)
}

// Wanted are the services that somebody subscribes to.
func (s *Server) Wanted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name, t := range s.topics {
		if t.holders.count > 0 {
			out = append(out, name)
		}
	}
	return out
}

// Tallies are what a relay tells of all services.
func (s *Server) Tallies() (out []*pb.ServiceTally) {
	s.mu.Lock()
	names := make([]string, 0, len(s.topics))
	for name := range s.topics {
		names = append(names, name)
	}
	s.mu.Unlock()
	slices.Sort(names)
	for _, name := range names {
		out = append(out, s.Tally(name))
	}
	return out
}
