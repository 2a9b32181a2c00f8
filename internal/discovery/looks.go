package discovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/evidence"
	"github.com/fairlead-platform/fairlead/view"
)

// ErrNotObserving says that this control does not observe now: another leads.
var ErrNotObserving = errors.New("this control does not lead, or has only just begun to")

// ProberStream is one prober's stream to this control. It ends with the term, or
// when another stream of the same prober takes its place.
type ProberStream struct {
	t    *term
	m    *proberMember
	wake chan struct{} // holds one: there may be news
	done chan struct{}

	// The rest is guarded by the term's mu.
	ended bool
	begun bool                   // its first assignment was given
	sent  map[uint32]ProbeTarget // :: handle → as the prober has it
	now   []uint32               // to be looked at at once
	last  uint64                 // number of the last batch
}

// ProbeTarget is what a prober is told of one target.
type ProbeTarget struct {
	Handle   uint32
	ID       string
	Address  string
	Check    eligibility.ProbeCheck
	Interval time.Duration
	Alone    bool // nobody else looks at it
}

// ProbeNews is what is new for a prober.
type ProbeNews struct {
	// Assignment says that the fields up to Dropped are to be told; Full that
	// nothing else is assigned.
	Assignment, Full bool
	Epoch            view.Epoch
	Version          uint64
	Targets          []ProbeTarget
	Dropped          []uint32
	Now              []uint32 // to be looked at at once
}

// ProbeLook is one look of a prober.
type ProbeLook struct {
	Instance uint32 // handle
	Result   eligibility.Result
	Age      time.Duration
	Bytes    int    // on the wire, about
	Detail   string // for people
}

// Prober begins the stream of a prober, by the name in its identity.
func (p *Plane) Prober(name, zone string) (*ProberStream, error) {
	t := p.current()
	if t == nil {
		return nil, ErrNotObserving
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, ErrNotObserving
	}
	s := &ProberStream{t: t, wake: make(chan struct{}, 1), done: make(chan struct{}), sent: map[uint32]ProbeTarget{}}
	first := !t.probing.any
	delete(t.probing.forgetting, name)
	m := t.probing.members[name]
	if m == nil {
		m = &proberMember{ProberRecord: ProberRecord{Name: name}}
		t.probing.members[name] = m
		t.log.Info("a prober has joined", "prober", name, "zone", zone)
	}
	if m.stream != nil {
		m.stream.end()
	}
	if m.Zone != zone {
		m.Zone, m.kept = zone, false
	}
	s.m, m.stream = m, s
	s.heard()
	if m.Handle == 0 || !m.kept || m.gone {
		m.gone, m.lost = false, false
		t.probing.change()
	}
	if t.probing.count(); first {
		t.lookersChanged()
	}
	s.wakeUp()
	return s, nil
}

// lookersChanged has contracts read anew: whether anybody looks at all changed.
func (t *term) lookersChanged() {
	for name := range t.known {
		t.contract(name)
		t.knowAll(name)
	}
}

// endProbers ends every stream: this control observes no more.
func (t *term) endProbers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, m := range t.probing.members {
		if m.stream != nil {
			m.stream.end()
		}
	}
}

func (s *ProberStream) end() {
	if s.ended {
		return
	}
	s.ended = true
	if s.m.stream == s {
		s.m.stream = nil
	}
	close(s.done)
}

// Close says that the stream is no more.
func (s *ProberStream) Close() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.end()
}

// Done is closed when the stream is to end.
func (s *ProberStream) Done() <-chan struct{} { return s.done }

// Wake holds one when there may be news.
func (s *ProberStream) Wake() <-chan struct{} { return s.wake }

func (s *ProberStream) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Beat notes that the prober was heard.
func (s *ProberStream) Beat() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if !s.ended {
		s.heard()
	}
}

func (s *ProberStream) heard() {
	s.m.heard = time.Now()
	s.m.until = s.m.heard.Add(goneAfter)
}

// News is what is to be told since it was asked last.
func (s *ProberStream) News() (n ProbeNews) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.ended {
		return n
	}
	wanted := map[uint32]bool{} // :: handle
	for _, id := range s.m.Targets {
		x := s.t.probing.targets[id]
		if x == nil || !x.by(s.m.Handle) {
			continue
		}
		wanted[x.handle] = true
		told := ProbeTarget{Handle: x.handle, ID: x.id, Address: x.address, Check: x.check, Interval: x.interval, Alone: len(x.probers) == 1}
		if s.sent[x.handle] != told {
			s.sent[x.handle] = told
			n.Targets = append(n.Targets, told)
		}
	}
	for h := range s.sent {
		if !wanted[h] {
			delete(s.sent, h)
			n.Dropped = append(n.Dropped, h)
		}
	}
	slices.Sort(n.Dropped)
	n.Full, s.begun = !s.begun, true
	n.Assignment = n.Full || len(n.Targets) > 0 || len(n.Dropped) > 0
	n.Epoch, n.Version = s.t.lead.Epoch(), s.m.Version
	n.Now, s.now = s.now, nil
	return n
}

// Take takes a batch of looks in. False says that the stream has ended.
func (s *ProberStream) Take(number uint64, looks []ProbeLook) bool {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.ended {
		return false
	}
	s.heard()
	if number <= s.last {
		t.ingest.Discard(evidence.Repeated, len(looks))
		return true
	}
	s.last = number
	bytes := uint64(0)
	batch := make([]evidence.Look, len(looks))
	for i, l := range looks {
		batch[i] = evidence.Look{Instance: l.Instance, Result: l.Result, Age: l.Age}
		bytes += uint64(max(l.Bytes, 0))
	}
	t.ingest.Weighed(probeBytes, bytes)
	if s.m.Handle == 0 { // nothing was ever assigned to it
		t.ingest.Discard(evidence.NotAssigned, len(looks))
		return true
	}
	t.ingest.Probes(s.m.Handle, batch)
	if slices.ContainsFunc(looks, func(l ProbeLook) bool { return l.Result == eligibility.Refused }) {
		t.hurry()
	}
	s.m.looked = t.p.cfg.Now()
	for _, l := range looks {
		if row, known := t.reg.ByHandle(l.Instance); known {
			if x := t.probing.targets[row.ID]; x != nil && x.by(s.m.Handle) {
				if l.Result != eligibility.Good {
					t.detection.sample(l.Instance, time.Now().Add(-max(l.Age, 0)))
				}
				t.saw(x, s.m, l)
			}
		}
	}
	return true
}

// mostDetail is how long a prober's word for people may be, in bytes.
const mostDetail = 200

// saw notes a look for people. At a first refusal the others look at once:
// whether they are refused as well decides between a closed port and a closed
// way to it.
func (t *term) saw(x *target, m *proberMember, l ProbeLook) {
	i := slices.IndexFunc(x.seen, func(s seen) bool { return s.prober == m.Handle })
	if i < 0 {
		x.seen = append(slices.DeleteFunc(x.seen, func(s seen) bool { return !slices.Contains(x.probers, s.prober) }), seen{prober: m.Handle})
		i = len(x.seen) - 1
	}
	x.seen[i].result, x.seen[i].detail = l.Result, strings.ToValidUTF8(l.Detail[:min(len(l.Detail), mostDetail)], "")
	was := slices.Contains(x.refused, m.Handle)
	switch is := l.Result == eligibility.Refused; {
	case was && !is:
		x.refused = slices.DeleteFunc(x.refused, func(h uint32) bool { return h == m.Handle })
	case is && !was:
		x.refused = append(x.refused, m.Handle)
		for _, h := range x.probers {
			other := t.probing.handles[h]
			if h != m.Handle && !slices.Contains(x.refused, h) && other != nil && other.stream != nil {
				other.stream.now = append(other.stream.now, x.handle)
				other.stream.wakeUp()
			}
		}
	}
}

// tellProbes adds to what is said of an instance who looks at it.
func (t *term) tellProbes(id, service string, classes []string) []string {
	declared, is := t.contracts[service]
	if !is {
		declared = DefaultContract()
	}
	if !declared.Profile.Probe || len(classes) == 0 {
		return classes
	}
	if !t.inForce(service).Profile.Probe {
		classes[0] = "probes: there is no prober"
		return classes
	}
	x := t.probing.targets[id]
	switch {
	case x == nil || x.over:
		return append(classes, "probed by nobody: it is looked at from when it first listens until it is asked to stop")
	case len(x.probers) == 0:
		return append(classes, "probed by nobody: "+t.nobody())
	}
	var by []string
	for _, h := range x.probers {
		if m := t.probing.handles[h]; m != nil {
			by = append(by, m.Name+t.shown(x, m))
		}
	}
	slices.Sort(by)
	how := strings.TrimSpace(x.check.Kind + " " + x.check.Path)
	return append(classes, fmt.Sprintf("probed by %s; each %s by %s", strings.Join(by, ", "), x.interval, how))
}

func (t *term) nobody() string {
	if t.probing.blind {
		return "no prober is heard"
	}
	return "no prober has room for it, or it was not assigned yet"
}

// shown is what is to be known of a prober beside what it looks at.
func (t *term) shown(x *target, m *proberMember) (text string) {
	switch {
	case x.borrowed:
		text = fmt.Sprintf(" (borrowed from zone %s", m.Zone)
	case len(x.probers) == 1:
		text = " (alone"
	}
	add := func(what string) {
		if text == "" {
			text = " (" + what
		} else {
			text += ", " + what
		}
	}
	if m.gone {
		add(fmt.Sprintf("silent for %s", time.Since(m.heard).Round(time.Second)))
	}
	if !m.suspect.IsZero() {
		add("suspect")
	}
	for _, s := range x.seen {
		if s.prober == m.Handle && s.detail != "" {
			add(fmt.Sprintf("%s: %s", s.result, s.detail))
		}
	}
	if text != "" {
		text += ")"
	}
	return text
}
