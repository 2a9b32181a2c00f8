package discovery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
	"github.com/fairlead-platform/fairlead/view"
)

const (
	// goneAfter is for how long a prober may say nothing before others look at
	// its targets: it beats each second.
	goneAfter = 5 * time.Second
	// overdue is for how long a prober that is well may say nothing.
	overdue = 2500 * time.Millisecond
	// comeBack is how long a new term waits for the probers that were there.
	comeBack = 10 * time.Second
	// forgetAfter is when a prober that is away is none any more.
	forgetAfter = time.Hour
	// preceding is for how many ticks the assignment before is accepted.
	preceding = 10
	// watchFor is the interval in which a prober is to have looked at a target
	// for its picture to count: the longest that there is.
	watchFor = slowest
)

// ProberRecord is a prober as the store keeps it: who it is, and what it looks
// at.
type ProberRecord struct {
	Name   string `json:"name"`
	Zone   string `json:"zone"`
	Handle uint32 `json:"handle"` // its number in evidence; never used again
	// Version of the assignment that changed this prober's targets last.
	Version uint64   `json:"version"`
	Targets []string `json:"targets"` // instances, sorted
}

func (r ProberRecord) key() store.Key { return store.Key{Kind: service.KindProber, Name: r.Name} }

func (r ProberRecord) write() store.Write {
	b, err := json.Marshal(r)
	if err != nil { // it holds nothing that JSON cannot say
		panic("discovery: cannot encode a prober: " + err.Error())
	}
	return store.Write{Key: r.key(), Any: true, Body: b}
}

// probing is who looks at what, for a term of leading. It is guarded by the
// term's mu.
type probing struct {
	members map[string]*proberMember // :: prober → member
	handles map[uint32]*proberMember // :: its handle → member
	targets map[string]*target       // :: instance → what is looked at
	before  map[string]bool          // :: instance whose preceding probers are accepted still
	// forgetting are probers whose records are to be erased, by name.
	forgetting map[string]bool
	version    uint64          // of the newest assignment
	top        uint32          // the highest handle that was given
	unlooked   int             // targets that nobody has room for
	stale      bool            // members or targets changed since it was computed
	lost       time.Time       // when one was found gone whose targets are to be looked at by others; zero is none
	any        bool            // there is a prober that is not away for long
	picks      map[string]pick // :: instance → who looks at it, by the assignment in force; never edited
	wake       chan struct{}   // holds one: it is to be computed
	blind      bool            // it was said that no prober is heard
}

// proberMember is a prober that is known.
type proberMember struct {
	ProberRecord
	kept    bool          // the store has its record
	stream  *ProberStream // nil while it is not connected
	heard   time.Time     // when, by this control's clock; its term's begin before that
	until   time.Time     // it counts as heard until then
	gone    bool          // silent for too long: others look at its targets
	lost    bool          // silent for so long that it is none any more
	looked  time.Time     // when its last look was taken in; zero is never
	suspect time.Time     // since when it is doubted; zero is not
}

func newProbing() *probing {
	return &probing{
		members: map[string]*proberMember{}, handles: map[uint32]*proberMember{}, targets: map[string]*target{}, before: map[string]bool{}, forgetting: map[string]bool{},
		wake: make(chan struct{}, 1),
	}
}

// change has the assignment computed anew.
func (p *probing) change() {
	p.stale = true
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// name of a prober, for people; empty where it is not known.
func (p *probing) name(handle uint32) string {
	if m := p.handles[handle]; m != nil {
		return m.Name
	}
	return ""
}

func (p *probing) enter(m *proberMember) {
	p.members[m.Name], p.handles[m.Handle] = m, m
	p.top = max(p.top, m.Handle)
}

// sorted are the members, by name.
func (p *probing) sorted() []*proberMember {
	out := make([]*proberMember, 0, len(p.members))
	for _, m := range p.members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *proberMember) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// loadProbers reads who there was, and who looked at what. Each has a while to
// come back: until then its targets are its own.
func (t *term) loadProbers(ctx context.Context) bool {
	docs, _, err := t.p.cfg.Store.List(ctx, service.KindProber)
	if err != nil {
		t.log.Warn("cannot read the probers", "error", err)
		return false
	}
	now := time.Now()
	t.probing = newProbing()
	for _, d := range docs {
		var r ProberRecord
		if err := json.Unmarshal(d.Body, &r); err != nil || r.Name != d.Name || r.Handle == 0 {
			t.log.Warn("the record of a prober cannot be read and is passed over", "record", d.Key, "error", err)
			continue
		}
		t.probing.enter(&proberMember{ProberRecord: r, kept: true, heard: now, until: now.Add(comeBack)})
		t.probing.version = max(t.probing.version, r.Version)
	}
	t.probing.count()
	return true
}

// attendance finds who fell silent, who is back, and who is none any more.
func (t *term) attendance() {
	now, p := time.Now(), t.probing
	heard, waver := 0, false
	for _, m := range p.sorted() {
		switch away := now.After(m.until); {
		case away && !m.gone:
			m.gone = true
			if p.lost.IsZero() {
				p.lost = now
			}
			t.log.Warn("alarm: a prober is silent; what it looked at is looked at by others", "prober", m.Name, "zone", m.Zone, "for", now.Sub(m.heard).Round(time.Second))
		case !away && m.gone:
			m.gone = false
			p.change()
			t.log.Info("a prober is heard again", "prober", m.Name, "zone", m.Zone)
		case away && !m.lost && now.Sub(m.heard) > forgetAfter:
			t.forget(m)
		}
		if !m.gone {
			heard++
			waver = waver || now.Sub(m.heard) > overdue
		}
	}
	// Where others are about to be gone as well, it is known only then who is
	// left, and whether anybody is.
	if !p.lost.IsZero() && (!waver || now.Sub(p.lost) > goneAfter) {
		p.lost = time.Time{}
		p.change()
	}
	t.blindness(heard)
}

// forget drops a prober that has been away for long. The record with the highest
// handle stays, so that no handle is given twice.
func (t *term) forget(m *proberMember) {
	m.lost = true
	t.log.Info("a prober that was away for long is forgotten", "prober", m.Name, "zone", m.Zone)
	if m.Handle != t.probing.top {
		delete(t.probing.members, m.Name)
		delete(t.probing.handles, m.Handle)
		t.probing.forgetting[m.Name] = true
		t.probing.change()
	}
	if t.probing.count(); !t.probing.any {
		t.lookersChanged()
	}
}

// count notes whether there is a prober, be it heard or not.
func (p *probing) count() {
	p.any = false
	for _, m := range p.members {
		p.any = p.any || !m.lost
	}
}

// blindness says once that nobody looks any more, and once that somebody does.
func (t *term) blindness(heard int) {
	p := t.probing
	switch is := heard == 0 && p.any; {
	case is && !p.blind:
		p.blind = true
		t.log.Error("alarm: observation is lost: no prober is heard; nothing is concluded from that", "probers", p.names(), "instances", len(p.targets))
	case !is && p.blind:
		p.blind = false
		t.log.Info("a prober is heard again: observation goes on")
	}
}

func (p *probing) names() (names []string) {
	for _, m := range p.sorted() {
		names = append(names, m.Name)
	}
	return names
}

// suspicion finds who is to be doubted from now on, and who no longer is.
func (t *term) suspicion() {
	doubted := map[uint32]bool{} // :: prober's handle
	for _, h := range t.ingest.Suspects() {
		doubted[h] = true
	}
	for _, m := range t.probing.sorted() {
		switch is := doubted[m.Handle]; {
		case is && m.suspect.IsZero():
			m.suspect = t.p.cfg.Now()
			t.log.Error("alarm: a prober sees most of its targets fail; what it says against them waits for another's word", "prober", m.Name, "zone", m.Zone, "why", t.why(m))
		case !is && !m.suspect.IsZero():
			t.log.Info("a prober is doubted no more", "prober", m.Name, "for", t.p.cfg.Now().Sub(m.suspect).Round(time.Second))
			m.suspect = time.Time{}
		}
	}
}

func (t *term) why(m *proberMember) string {
	failed, of := t.ingest.Seen(m.Handle)
	return fmt.Sprintf("%d of the %d targets that it looked at last failed", failed, of)
}

// ProberState is a prober as a person asks for it.
type ProberState struct {
	Name, Zone string
	Connected  bool
	Silent     time.Duration
	Gone       bool // silent for so long that others look at its targets
	Targets    int
	Borrowed   int       // of the targets stand in another zone, which has none
	Assignment uint64    // version of what it looks at
	Looked     time.Time // zero is never
	Suspect    time.Time // since when; zero is not
	Why        string    // it is suspect
}

// Probers are all that are known, by name, and how many instances nobody has
// room to look at. False says that nothing is known: this control does not lead,
// or has only just begun to.
func (p *Plane) Probers() (all []ProberState, unlooked int, observing bool) {
	t := p.current()
	if t == nil {
		return nil, 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	targets, borrowed := map[uint32]int{}, map[uint32]int{} // :: prober's handle → how many
	for _, x := range t.probing.targets {
		for _, h := range x.probers {
			targets[h]++
			if x.borrowed {
				borrowed[h]++
			}
		}
	}
	for _, m := range t.probing.sorted() {
		s := ProberState{
			Name: m.Name, Zone: m.Zone, Connected: m.stream != nil, Silent: time.Since(m.heard), Gone: m.gone,
			Targets: targets[m.Handle], Borrowed: borrowed[m.Handle], Assignment: m.Version, Looked: m.looked, Suspect: m.suspect,
		}
		if !m.suspect.IsZero() {
			s.Why = t.why(m)
		}
		all = append(all, s)
	}
	return all, t.probing.unlooked, true
}

// Alarms are what a person should know of observation now.
func (p *Plane) Alarms() (alarms []string) {
	t := p.current()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.probing.sorted() {
		switch {
		case t.probing.blind:
		case m.gone:
			alarms = append(alarms, fmt.Sprintf("prober %s of zone %s has been silent for %s", m.Name, m.Zone, time.Since(m.heard).Round(time.Second)))
		case !m.suspect.IsZero():
			alarms = append(alarms, fmt.Sprintf("prober %s of zone %s is suspect: %s", m.Name, m.Zone, t.why(m)))
		}
	}
	if t.probing.blind {
		unknown, all := t.unknown()
		alarms = append(alarms, fmt.Sprintf("observation is lost: none of the probers %v is heard; %d of %d instances are unknown", t.probing.names(), unknown, all))
	}
	if n := t.probing.unlooked; n > 0 {
		alarms = append(alarms, fmt.Sprintf("%d instances are looked at by nobody: no prober has room for them, start more", n))
	}
	if text := t.bucketAlarm(); text != "" {
		alarms = append(alarms, text)
	}
	if why, sheds := t.tempo.Sheds(); sheds {
		alarms = append(alarms, fmt.Sprintf("additions and planned removals of views wait up to %s: %s", t.tempo.Window(), why))
	}
	return alarms
}

// unknown is how many instances nobody sees, of how many.
func (t *term) unknown() (unknown, all int) {
	for name := range t.known {
		for verdict, n := range t.eval.Counts(name) {
			all += n
			if verdict == view.Unknown {
				unknown += n
			}
		}
	}
	return unknown, all
}

// lookable takes probes out of a contract where nobody could look: there is no
// prober, and the instance has a word of its own.
func (t *term) lookable(c eligibility.Contract) eligibility.Contract {
	if c.Profile.Self && !t.probing.any {
		c.Profile.Probe, c.Look = false, nil
	}
	return c
}
