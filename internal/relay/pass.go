package relay

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/surface/views"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

var _ resolver.Passer = (*Relay)(nil)

// state is what control was told on the present stream.
type state struct {
	relay   *pb.RelayState
	tallies map[string]*pb.ServiceTally // :: service → what was told of it
}

// Welcomed begins the epoch for subscribers too.
func (r *Relay) Welcomed(e view.Epoch, region string) {
	r.server.SetRegion(region)
	r.server.Begin(e)
}

// Told passes a view on.
func (r *Relay) Told(v *view.Service, c view.Change) { r.publish(v, c.Nature) }

func (r *Relay) publish(v *view.Service, n view.Nature) {
	r.fan.see(v)
	r.server.Publish(v, n)
}

// Heard takes what control says beside views.
func (r *Relay) Heard(m *pb.SubscribeResponse) {
	switch m := m.GetMessage().(type) {
	case *pb.SubscribeResponse_Doors:
		r.doors(m.Doors)
	case *pb.SubscribeResponse_Welcome:
		r.doors(m.Welcome.GetDoors())
	case *pb.SubscribeResponse_RosterWanted:
		r.mu.Lock()
		if len(r.rosters) < mostAsked {
			r.rosters = append(r.rosters, m.RosterWanted)
		}
		r.mu.Unlock()
		signal(r.say)
	}
}

// mostAsked rosters wait to be answered.
const mostAsked = 64

func (r *Relay) doors(p *pb.Doors) {
	if p.GetShare() == 0 {
		return
	}
	d := views.Doors{Relays: p.GetRelays(), Population: int(p.GetPopulation()), Share: int(p.GetShare())}
	if d.Equal(r.server.Doors()) {
		return
	}
	r.server.SetDoors(d)
	r.keepDoors(d)
}

// Beside carries what callers saw to the control that is followed, and hears
// from it who is refused.
func (r *Relay) Beside(ctx context.Context, conn grpc.ClientConnInterface) {
	var hearing sync.WaitGroup
	defer hearing.Wait()
	if r.cfg.Revoked != nil {
		hearing.Go(func() { r.followRefusals(ctx, conn) })
	}
	r.fan.send(ctx, conn)
}

// Ready is signalled when there may be something to tell control.
func (r *Relay) Ready() <-chan struct{} { return r.say }

// Next is what control is told next; nil is nothing.
func (r *Relay) Next(first bool) (m *pb.SubscribeRequest) {
	defer func() {
		if m != nil {
			signal(r.say) // there may be more
		}
	}()
	wanted, draining := r.takeRoster(first)
	if first {
		r.told, r.tallied = state{tallies: map[string]*pb.ServiceTally{}}, time.Time{}
	}
	if wanted != nil {
		return &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Roster{Roster: r.server.Roster(wanted)}}
	}
	now := &pb.RelayState{Address: r.cfg.Address, Subscribers: uint32(r.server.Connected())}
	if draining {
		now.Address = ""
	}
	if r.told.relay == nil || !proto.Equal(r.told.relay, now) {
		r.told.relay = now
		return &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Relay{Relay: now}}
	}
	return r.tally()
}

// takeRoster is the next one that is asked for; those of another stream are
// nobody's.
func (r *Relay) takeRoster(first bool) (wanted *pb.RosterWanted, draining bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first {
		r.rosters = nil
	}
	if len(r.rosters) > 0 {
		wanted, r.rosters = r.rosters[0], r.rosters[1:]
	}
	return wanted, r.draining
}

// tally says how far subscribers are, where that is otherwise than control was
// told.
func (r *Relay) tally() *pb.SubscribeRequest {
	now := r.cfg.Clock()
	if now.Sub(r.tallied) < ticks {
		return nil
	}
	r.tallied = now
	m := &pb.RelayTally{}
	for _, t := range r.server.Tallies() {
		if before := r.told.tallies[t.GetService()]; before == nil && t.GetSubscribers()+t.GetRefused() == 0 || proto.Equal(before, t) {
			continue
		}
		r.told.tallies[t.GetService()] = t
		m.Services = append(m.Services, t)
	}
	if len(m.Services) == 0 {
		return nil
	}
	return &pb.SubscribeRequest{Message: &pb.SubscribeRequest_Tally{Tally: m}}
}
