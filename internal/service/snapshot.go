package service

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/internal/saga"
	"github.com/fairlead-platform/fairlead/view"
)

// Doc is a record at the version that was read. Version zero: there is none.
type Doc[T any] struct {
	Value   T
	Version uint64
}

// Exists says that the record is there.
func (d Doc[T]) Exists() bool { return d.Version != 0 }

// Broken is a record that cannot be read.
type Broken struct {
	Kind, Name string
	Version    uint64
	Problem    string
}

// Snapshot is everything that the store says of one service, as of one
// sequence. It is immutable; its slices are shared.
type Snapshot struct {
	Service   string
	Desired   Doc[Desired]
	Catalog   Doc[Catalog]
	Routes    Doc[Routes]
	Revisions []Doc[Revision]    // by number
	Sagas     []Doc[saga.Record] // by identity
	Events    []Doc[string]      // names of event records, oldest first
	Claims    []Doc[string]      // host names claimed, in order
	Broken    []Broken
	// LastRoutes is the plan that was read last of a routes record that cannot be
	// read any more; nil is none, or that it can.
	LastRoutes *view.Route
	// Intent is the digest of Desired.Template.
	Intent string
}

// World is what the leader sees beside the store. It is immutable.
type World struct {
	// Hosts :: name → host as seen now
	Hosts map[string]HostState
	// Instances :: slot → its processes as reported
	Instances map[string][]Instance
	// Of :: service → its processes as reported
	Of map[string][]Instance
	// Gone :: host name → not heard for as long as its own lease lasts, and no
	// gateway that is heard says that it polls
	Gone map[string]bool
	// Polls :: host name → a gateway that is heard and says that the host polls it
	Polls map[string]string
	// Retired says that a person retired a host; nil says it of none.
	Retired func(host string) bool
	// Draining :: host name → a person wants nothing to run there
	Draining map[string]bool
	// Load :: host name → slots with a process
	Load map[string]int
	// Gateways known to the store, by name.
	Gateways []KnownGateway
	// MayPick are the callers who may still pick one of a service's instances by the
	// views that they hold; nil says that there are none.
	MayPick func(service string, instances []string) routing.Pickers
	// Incarnation and Sequence of the store.
	Incarnation string
	Sequence    uint64
	// Due says that a waiting saga's time has come, by the leader's clock.
	Due func(rec saga.Record) bool
	// Parked says why this program cannot drive an open saga; empty when it can.
	Parked func(rec saga.Record) string
	// Unreferenced says for how long the leader has seen that nothing refers to a revision.
	Unreferenced func(revision string) time.Duration
	// Cooled says that the window has passed in which a revision is kept warm.
	Cooled func(revision string) bool
	// Ends says how many processes of a slot's life have ended by themselves
	// that the history does not tell of and is to tell of now, of all that did.
	Ends func(key string, all int) int
	// Stray says for how long the leader has seen that nobody asked for what
	// StrayKey names.
	Stray func(key string) time.Duration
	// Out says that an instance was in rotation and is out by its verdict; nil
	// says it of none.
	Out func(service, instance string) bool
	// Doubts says that an instance is not seen to do well: nobody sees it, or it is
	// not in rotation; nil says it of none.
	Doubts func(service, instance string) bool
	// Poor says why a host is avoided; empty, or nil, is that it is not.
	Poor func(host string) string
}

// KnownGateway is one gateway of the membership, with what is seen of it now.
type KnownGateway struct {
	Gateway
	// State as reported since the leader started; nil when nothing was.
	State *GatewayState
	// Silent is how long the leader has heard nothing, by its own clock.
	Silent time.Duration
}

// Known joins the membership with what is seen. Leading is for how long the
// leader has been able to hear. States are those of ports, in any order.
func Known(members []Gateway, states []GatewayState, leading time.Duration) []KnownGateway {
	byName := make(map[string]*GatewayState, len(states)) // :: gateway name → state
	for i := range states {
		byName[states[i].Name] = &states[i]
	}
	out := make([]KnownGateway, 0, len(members))
	for _, m := range members {
		k := KnownGateway{Gateway: m, State: byName[m.Name], Silent: leading}
		if k.State != nil {
			k.Silent = min(k.State.Silent, leading)
		}
		out = append(out, k)
	}
	return out
}

// Revision returns the named one, or a Doc that does not exist.
func (s *Snapshot) Revision(name string) Doc[Revision] {
	for _, r := range s.Revisions {
		if r.Value.Name == name {
			return r
		}
	}
	return Doc[Revision]{}
}

// Saga returns the one with the identity, or a Doc that does not exist.
func (s *Snapshot) Saga(id string) Doc[saga.Record] {
	for _, r := range s.Sagas {
		if r.Value.ID == id {
			return r
		}
	}
	return Doc[saga.Record]{}
}

// NextRevision is the number of the next revision. It passes over the names of
// what still runs, also out of an earlier life of the service or of the store:
// an old process must not be taken for a new revision's.
func (s *Snapshot) NextRevision(w *World) int32 {
	n := s.Catalog.Value.LastRevision
	for _, r := range s.Revisions {
		n = max(n, r.Value.Number)
	}
	for _, i := range w.Of[s.Service] {
		n = max(n, numberOf(s.Service, i.Revision))
	}
	return n + 1
}

// numberOf is the number in a revision's name; zero when it is not of the service.
func numberOf(service, revision string) int32 {
	digits, ok := strings.CutPrefix(revision, service+"-")
	n, err := strconv.ParseInt(digits, 10, 31) // of which there is a next one
	if !ok || err != nil || n < 0 || RevisionName(service, int32(n)) != revision {
		return 0
	}
	return int32(n)
}

// Empty says that the store holds nothing of the service.
func (s *Snapshot) Empty() bool {
	return !s.Desired.Exists() && !s.Catalog.Exists() && !s.Routes.Exists() &&
		len(s.Revisions)+len(s.Sagas)+len(s.Events)+len(s.Claims)+len(s.Broken) == 0
}

// Referenced says that the catalog refers to the revision.
func (c Catalog) Referenced(revision string) bool {
	if c.Latest == revision {
		return true
	}
	for _, p := range c.Traffic {
		if p.Revision == revision {
			return true
		}
	}
	return false
}

// KeepsRunning says that the catalog wants the revision's instances to run: it
// refers to it, or keeps it warm for a rollback.
func (c Catalog) KeepsRunning(revision string) bool {
	return c.Referenced(revision) || revision != "" && c.Warm == revision
}

// RevisionName is SERVICE-00001 and so on.
func RevisionName(service string, number int32) string {
	return fmt.Sprintf("%s-%05d", service, number)
}

// SlotID is REVISION.INDEX.
func SlotID(revision string, index int) string { return fmt.Sprintf("%s.%d", revision, index) }

// GroupOf is the request group that the revision's instances poll: its own, or
// one that revisions of its service share. Both are named after their owner, so
// that no two services ever have one group.
func (r Revision) GroupOf() string {
	if r.Template.Group != "" {
		return r.Service + "." + r.Template.Group
	}
	return r.Name
}

// Assignment of one of the revision's slots.
func (r Revision) Assignment(slot string, dwell time.Duration) Assignment {
	return Assignment{
		Slot: slot, Service: r.Service, Revision: r.Name, Minted: r.Minted, Group: r.GroupOf(),
		Template: r.Template, Round: r.Round, Dwell: dwell,
	}
}

// Owns says that a process was started for the revision, in this life of its name.
func (r Revision) Owns(i Instance) bool {
	return i.Revision == r.Name && view.SameLife(i.Minted, r.Minted)
}

// Processes in one of the revision's slots, as reported. Those of another life
// of its name are none of its own.
func (r Revision) Processes(slot string, w *World) []Instance {
	other := func(i Instance) bool { return !view.SameLife(i.Minted, r.Minted) }
	if list := w.Instances[slot]; !slices.ContainsFunc(list, other) {
		return list // as ever, and cheaply
	}
	return slices.DeleteFunc(slices.Clone(w.Instances[slot]), other)
}

// ReadyDeadline is how long an attempt may take to be ready.
func (t Template) ReadyDeadline() time.Duration {
	if t.ReadyTimeout > 0 {
		return t.ReadyTimeout
	}
	return time.Minute
}

// AtOnce is how many requests an instance takes at once.
func (t Template) AtOnce() int {
	if t.Concurrency > 0 {
		return t.Concurrency
	}
	return DefaultConcurrency
}

// DrainTime is how long what was leased may go on.
func (t Template) DrainTime() time.Duration {
	if t.Drain > 0 {
		return t.Drain
	}
	return view.DefaultDrain
}
