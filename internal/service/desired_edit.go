package service

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Author says who wrote a generation, and when. It decides nothing.
type Author struct {
	By string
	At time.Time
}

// DeployEdit is what a deploy asks for, whole: the caller has merged its flags
// with what stood (see [DeployFlags]).
type DeployEdit struct {
	Template Template
	// Instances; zero keeps the number, or means 1 for a new service.
	Instances int
	HostNames []string
	// NoTraffic pins traffic to what the catalog says today; the new revision gets 0%.
	NoTraffic bool
	// Tag for the new revision; empty gives it none.
	Tag string
	// Force, when not empty, makes a new revision even of an unchanged template.
	Force string
	Author
}

// Deploy returns the next generation of old. A nil old, or a tombstone, makes
// the service anew. It returns an [*InputError] for what cannot be accepted.
func Deploy(old *Desired, name string, e DeployEdit, today Catalog) (Desired, error) {
	next := Desired{Service: name, Generation: 1, Instances: 1}
	if old != nil {
		if next.Generation = old.Generation + 1; !old.Deleted {
			next = old.next(e.Author)
		}
		next.Round = old.Round
	}
	next.By, next.At = e.By, e.At
	next.Paused, next.Aborted = false, 0 // they belong to what was asked for before
	next.Template = e.Template.clone()
	if e.Instances != 0 {
		next.Instances = e.Instances
	}
	if e.Force != "" {
		next.Force = e.Force
	}
	var err error
	if next.HostNames, err = normalizeHostNames(name, e.HostNames); err != nil {
		return Desired{}, err
	}
	if err := next.setTraffic(e, today); err != nil {
		return Desired{}, err
	}
	return next, next.Check()
}

// normalizeHostNames leaves out repetitions and the name that every service
// has, and orders what is left, so that one set is one list.
func normalizeHostNames(service string, names []string) ([]string, error) {
	var out []string
	for _, h := range names {
		n, err := NormalizeHostName(service, h)
		if err != nil {
			return nil, err
		}
		if n != LocalHost(service) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// setTraffic edits what NoTraffic and Tag name, and keeps the rest.
func (d *Desired) setTraffic(e DeployEdit, today Catalog) error {
	if e.NoTraffic && e.Template.Handover == HandoverExclusive {
		return refuse("deploy it with traffic", "a revision without traffic cannot run beside the one that serves: its handover is %s", HandoverExclusive)
	}
	if e.NoTraffic {
		pinned := pin(today)
		if len(pinned) == 0 {
			return refuse("deploy it without --no-traffic first", "nothing of service %s serves yet: there is no traffic to keep where it is", d.Service)
		}
		d.Traffic = pinned
	}
	if e.Tag == "" {
		if e.NoTraffic {
			d.Traffic = append(d.Traffic, Target{})
		}
		return nil
	}
	if err := CheckTag(d.Service, e.Tag); err != nil {
		return err
	}
	d.tagLatest(e.Tag)
	return nil
}

// pin names the revisions that the catalog sends traffic to, with their tags.
func pin(c Catalog) []Target {
	var out []Target
	sum := 0
	for _, p := range c.Traffic {
		if p.Percent > 0 || p.Tag != "" {
			out = append(out, Target{Revision: p.Revision, Percent: p.Percent, Tag: p.Tag})
			sum += p.Percent
		}
	}
	if sum == 0 {
		return nil
	}
	return out
}

// tagLatest moves the tag to the latest revision, whose share stays what it is.
func (d *Desired) tagLatest(tag string) {
	if len(d.Traffic) == 0 {
		d.Traffic = []Target{{Percent: 100, Tag: tag}}
		return
	}
	kept, done := d.Traffic[:0:0], false
	for _, t := range d.Traffic {
		switch {
		case t.Revision == "" && !done:
			t.Tag, done = tag, true
		case t.Tag == tag:
			if t.Tag = ""; t.Percent == 0 {
				continue // only its tag led to it
			}
		}
		kept = append(kept, t)
	}
	if !done {
		kept = append(kept, Target{Tag: tag})
	}
	d.Traffic = kept
}

// Scale returns the next generation of d with n instances.
func (d Desired) Scale(n int, a Author) (Desired, error) {
	next := d.beside(a)
	next.Instances = n
	return next, next.Check()
}

// Restart returns the next generation of d, in which every instance is replaced.
func (d Desired) Restart(a Author) Desired {
	next := d.beside(a)
	next.Round++
	return next
}

// Delete returns d's tombstone. It keeps what the service was, for people.
func (d Desired) Delete(a Author) Desired {
	next := d.next(a)
	next.Deleted = true
	return next
}

// next is a copy of d, one generation on.
func (d Desired) next(a Author) Desired {
	n := d
	n.Generation++
	n.Asked = 0
	n.By, n.At = a.By, a.At
	n.Template = d.Template.clone()
	n.HostNames = slices.Clone(d.HostNames)
	n.Traffic = slices.Clone(d.Traffic)
	return n
}

// beside is next for a change that asks for nothing that a deploy waits for.
func (d Desired) beside(a Author) Desired {
	n := d.next(a)
	n.Asked = d.AskedAt()
	return n
}

// AskedAt is the generation that asked last for what is to run.
func (d Desired) AskedAt() int32 { return cmp.Or(d.Asked, d.Generation) }

func (t Template) clone() Template {
	t.Command = slices.Clone(t.Command)
	t.Env = maps.Clone(t.Env)
	if len(t.Env) == 0 {
		t.Env = nil // an empty environment and none are one intent
	}
	return t
}

// Pinned says in words where traffic stays when the latest revision gets none
// of it; empty when it gets some.
func (d Desired) Pinned() string {
	if len(d.Traffic) == 0 {
		return ""
	}
	var stays []string
	for _, t := range d.Traffic {
		if t.Revision == "" && t.Percent > 0 {
			return ""
		}
		if t.Percent > 0 {
			stays = append(stays, percentText(t.Percent)+" "+t.Revision)
		}
	}
	return strings.Join(stays, ", ")
}
