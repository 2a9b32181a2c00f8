package service

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/fairlead-platform/fairlead/internal/saga"
)

// LatestRevision stands, in a verb, for the latest revision, whichever it is.
const LatestRevision = "LATEST"

// Each verb returns the next generation of what stood, without an author, which
// its caller sets; or an [*InputError] when it cannot be done or there is
// nothing to do.

// SetTraffic divides the traffic anew. The percents of parts add up to 100; no
// parts keep the shares that stand. Tags :: tag → revision; a tag of no
// revision ("") is removed, and those not named stay where they are. A revision
// is named as it is or by [LatestRevision]. Known are the service's revisions.
func SetTraffic(d Desired, parts []Target, tags map[string]string, known []Revision) (Desired, error) {
	if err := d.stands(); err != nil {
		return Desired{}, err
	}
	if len(parts)+len(tags) == 0 {
		return Desired{}, refuse("say REVISION=PERCENT, e.g. "+LatestRevision+"=100", "no traffic is named: there is nothing to change")
	}
	list, err := d.shares(parts, known)
	if err != nil {
		return Desired{}, err
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		if list, err = d.moveTag(list, tag, tags[tag], known); err != nil {
			return Desired{}, err
		}
	}
	next := d.beside(Author{})
	next.Traffic = plain(list)
	if err := next.oneOfEachGroup(known); err != nil {
		return Desired{}, err
	}
	if slices.Equal(next.Traffic, d.Traffic) {
		return Desired{}, refuse("", "the traffic of service %s is asked to be so already", d.Service)
	}
	return next, next.Check()
}

// stands refuses verbs on a tombstone.
func (d Desired) stands() error {
	if d.Deleted || d.Service == "" {
		return refuse("deploy it first", "service %q is not there, or is being deleted", d.Service)
	}
	return nil
}

// shares are the targets that parts ask for, with the tags that stand.
func (d Desired) shares(parts []Target, known []Revision) ([]Target, error) {
	standing := d.Traffic
	if len(standing) == 0 {
		standing = []Target{{Percent: 100}}
	}
	if len(parts) == 0 {
		return slices.Clone(standing), nil
	}
	var out []Target
	sum := 0
	for _, p := range parts {
		name, err := usable(p.Revision, known)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(t Target) bool { return t.Revision == name }) {
			return nil, refuse("name each revision once", "revision %s is given two shares", cmp.Or(name, LatestRevision))
		}
		sum += p.Percent
		out = append(out, Target{Revision: name, Percent: p.Percent, Tag: p.Tag})
	}
	if sum != 100 {
		return nil, refuse("name every share, the one that stays as well", "the traffic adds up to %d percent, not 100", sum)
	}
	for _, t := range standing {
		if t.Tag != "" {
			out = tagged(out, t.Tag, t.Revision)
		}
	}
	return out, nil
}

// usable is the target's name of a revision that traffic may be sent to; the
// latest has none.
func usable(name string, known []Revision) (string, error) {
	if name == "" || name == LatestRevision {
		return "", nil
	}
	r, ok := find(known, name)
	if !ok {
		return "", refuse("list them by: fairlead revisions", "there is no revision %q", name)
	}
	switch r.State {
	case RevisionFailed:
		return "", refuse("deploy again, or name another one", "revision %s failed (%s): no traffic is sent to it", name, cmp.Or(r.Reason, "its deploy did not end"))
	case RevisionRetired:
		return "", refuse("bring it back with its configuration by: fairlead rollback "+r.Service+" --to "+name, "revision %s is retired (%s)", name, cmp.Or(r.Reason, "nothing referred to it"))
	case RevisionPending:
		return "", refuse("wait for its deploy, or say "+LatestRevision, "revision %s is not ready yet: its deploy has not ended", name)
	}
	return name, nil
}

func find(known []Revision, name string) (Revision, bool) {
	i := slices.IndexFunc(known, func(r Revision) bool { return r.Name == name })
	if i < 0 {
		return Revision{}, false
	}
	return known[i], true
}

// tagged gives the tag to the revision's target; a tag that stands is kept
// where the target has one already.
func tagged(list []Target, tag, revision string) []Target {
	for i, t := range list {
		if t.Tag == tag {
			return list
		}
		if t.Revision == revision && t.Tag == "" {
			list[i].Tag = tag
			return list
		}
	}
	return append(list, Target{Revision: revision, Tag: tag})
}

func (d Desired) moveTag(list []Target, tag, revision string, known []Revision) ([]Target, error) {
	if err := CheckTag(d.Service, tag); err != nil {
		return nil, err
	}
	held := slices.ContainsFunc(list, func(t Target) bool { return t.Tag == tag })
	if revision == "" && !held {
		return nil, refuse("", "service %s has no tag %q to remove", d.Service, tag)
	}
	list = slices.Clone(list)
	for i := range list {
		if list[i].Tag == tag {
			list[i].Tag = ""
		}
	}
	if revision == "" {
		return list, nil
	}
	name, err := usable(revision, known)
	if err != nil {
		return nil, err
	}
	return tagged(list, tag, name), nil
}

// plain leaves out what leads nowhere, and says "all to the latest" by nothing.
func plain(list []Target) []Target {
	list = slices.DeleteFunc(slices.Clone(list), func(t Target) bool { return t.Percent == 0 && t.Tag == "" && t.Revision != "" })
	if len(list) == 1 && list[0] == (Target{Percent: 100}) {
		return nil
	}
	return list
}

// oneOfEachGroup refuses two revisions that answer from one shared group: what
// waits there does not say which of them it is for.
func (d Desired) oneOfEachGroup(known []Revision) error {
	of := map[string]string{} // :: shared group → the revision that answers from it
	for _, t := range d.Traffic {
		name, group := cmp.Or(t.Revision, LatestRevision), d.Template.Group
		if r, ok := find(known, t.Revision); ok {
			group = r.Template.Group
		}
		if t.Revision == newest(known, RevisionServing).Name && t.Revision != "" && group == d.Template.Group {
			name = LatestRevision
		}
		if d.Template.Handover == HandoverExclusive {
			group = "(" + HandoverExclusive + ")" // one at a time, whatever its group
		}
		if group == "" || t.Percent == 0 && t.Tag == "" {
			continue
		}
		if other, taken := of[group]; taken && other != name {
			if d.Template.Handover == HandoverExclusive {
				return refuse("send all traffic to one of them", "revisions %s and %s cannot run beside each other: their handover is %s", other, cmp.Or(t.Revision, LatestRevision), HandoverExclusive)
			}
			return refuse("give revisions groups of their own to divide traffic among them",
				"revisions %s and %s share the request group %q, where one of them answers at a time", other, cmp.Or(t.Revision, LatestRevision), group)
		}
		of[group] = name
	}
	return nil
}

// newest revision in the state; the zero one when there is none.
func newest(known []Revision, state RevisionState) Revision {
	var out Revision
	for _, r := range known {
		if r.State == state && r.Number > out.Number {
			out = r
		}
	}
	return out
}

// RollbackChoice is the revision that a rollback goes to, and why.
type RollbackChoice struct {
	Revision string
	// Reason for people, e.g. "it served all traffic until 14:02, before hello-00007".
	Reason string
	// Warm says that it runs, so that going back to it is one write.
	Warm bool
}

// ChooseRollback finds what served before what serves now, by the catalog's
// record of earlier traffic. It only goes back: a rollback of a rollback goes
// to what served before that, or is refused. An explicit to (not empty) is
// taken whatever it was, as long as its record is there and it does not serve
// alone already.
func ChooseRollback(d Desired, c Catalog, revs []Revision, to string) (RollbackChoice, error) {
	if err := d.stands(); err != nil {
		return RollbackChoice{}, err
	}
	if to != "" {
		return chooseNamed(d, c, revs, to)
	}
	now := c.newestServing(revs)
	if now.Name == "" {
		return RollbackChoice{}, refuse("", "nothing serves %s yet: there is nothing to go back from", d.Service)
	}
	for _, e := range c.Earlier {
		r, ok := find(revs, e.Revision)
		if !ok || r.Number >= now.Number || r.State == RevisionFailed || r.State == RevisionPending {
			continue
		}
		reason := fmt.Sprintf("it served until %s, before %s", e.Ended.UTC().Format("2006-01-02 15:04:05"), now.Name)
		return RollbackChoice{Revision: r.Name, Reason: reason, Warm: r.warm()}, nil
	}
	return RollbackChoice{}, refuse("name one by --to; list them by: fairlead revisions "+d.Service,
		"no revision that served before %s is known: there is nothing to go back to", now.Name)
}

func chooseNamed(d Desired, c Catalog, revs []Revision, to string) (RollbackChoice, error) {
	r, ok := find(revs, to)
	switch {
	case !ok:
		return RollbackChoice{}, refuse("list them by: fairlead revisions "+d.Service, "there is no revision %q", to)
	case r.State == RevisionPending:
		return RollbackChoice{}, refuse("wait for its deploy, or end it by: fairlead abort "+d.Service, "revision %s is not ready yet: its deploy has not ended", to)
	case c.alone(to) && d.pinnedTo(to):
		return RollbackChoice{}, refuse("", "revision %s serves all traffic already, and traffic is pinned to it", to)
	}
	served := slices.ContainsFunc(c.Earlier, func(e EarlierTraffic) bool { return e.Revision == to }) || c.Serves(to)
	reason := "it was named"
	switch {
	case r.State == RevisionFailed:
		reason += ", although its deploy failed: " + cmp.Or(r.Reason, "no reason is known")
	case !served:
		reason += ", although it has not served before"
	}
	return RollbackChoice{Revision: to, Reason: reason, Warm: r.warm()}, nil
}

// warm says that the revision has what it takes to answer at once.
func (r Revision) warm() bool { return r.State == RevisionServing && len(r.Slots) > 0 }

// newestServing is the newest revision with a share of the traffic.
func (c Catalog) newestServing(revs []Revision) Revision {
	var out Revision
	for _, p := range c.Traffic {
		if r, ok := find(revs, p.Revision); ok && p.Percent > 0 && r.Number > out.Number {
			out = r
		}
	}
	return out
}

// Serves says that the revision has a share of the traffic.
func (c Catalog) Serves(revision string) bool {
	return slices.ContainsFunc(c.Traffic, func(p CatalogPart) bool { return p.Revision == revision && p.Percent > 0 })
}

// alone says that the revision has all of the traffic.
func (c Catalog) alone(revision string) bool {
	return c.Serves(revision) && !slices.ContainsFunc(c.Traffic, func(p CatalogPart) bool { return p.Revision != revision && p.Percent > 0 })
}

// Names says that traffic, or a tag, is asked to lead to the revision by name.
func (d Desired) Names(revision string) bool {
	return slices.ContainsFunc(d.Traffic, func(t Target) bool { return t.Revision == revision })
}

func (d Desired) pinnedTo(revision string) bool {
	return slices.ContainsFunc(d.Traffic, func(t Target) bool { return t.Revision == revision && t.Percent == 100 })
}

// Rollback pins all traffic to the choice, and brings its configuration back.
// Tags stay where they are.
func Rollback(d Desired, choice RollbackChoice, revs []Revision) Desired {
	next := d.next(Author{})
	next.Paused, next.Aborted = false, 0
	next.Traffic = []Target{{Revision: choice.Revision, Percent: 100}}
	for _, t := range d.Traffic {
		if t.Tag != "" {
			next.Traffic = tagged(next.Traffic, t.Tag, t.Revision)
		}
	}
	if r, ok := find(revs, choice.Revision); ok {
		next.Template, next.Force = r.Template.clone(), r.Force
	}
	return next
}

// Abort ends what is in progress: the attempt ends at its next wait, is undone,
// and is not tried again. What is asked for becomes what serves: the
// configuration of the latest revision, for a change of traffic the traffic of
// the catalog, and for a scale the number of instances there. Open are the service's sagas; ended ones are ignored.
func Abort(d Desired, c Catalog, revs []Revision, open []saga.Record) (Desired, error) {
	if err := d.stands(); err != nil {
		return Desired{}, err
	}
	kinds, ending := map[string]bool{}, false
	for _, r := range open {
		switch {
		case !r.Open() || r.Kind != WorkDeploy && r.Kind != WorkTraffic && r.Kind != WorkScale && r.Kind != WorkRestart:
		case r.Generation <= d.Aborted:
			ending = true
		default:
			kinds[r.Kind] = true
		}
	}
	if len(kinds) == 0 {
		if ending {
			return Desired{}, refuse("", "what was in progress of service %s is being ended already", d.Service)
		}
		return Desired{}, refuse("to go back to what served before: fairlead rollback "+d.Service, "nothing of service %s is in progress: there is nothing to abort", d.Service)
	}
	if kinds[WorkScale] && len(kinds) == 1 && (c.Instances == 0 || c.Instances == d.Instances) {
		return Desired{}, refuse("say the number that you want: fairlead scale "+d.Service+" N",
			"service %s is being brought to %d instances, and no other number is known to go back to", d.Service, d.Instances)
	}
	next := d.next(Author{})
	next.Aborted, next.Paused = d.Generation, false
	if kinds[WorkScale] && c.Instances > 0 {
		next.Instances = c.Instances
	}
	if latest, ok := find(revs, c.Latest); ok && kinds[WorkDeploy] {
		next.Template, next.Force = latest.Template.clone(), latest.Force
	}
	if kinds[WorkTraffic] && len(c.Traffic) > 0 {
		next.Traffic = c.targets()
	}
	if kinds[WorkRestart] {
		next.Round = c.Round
	}
	return next, next.Check()
}

// targets ask for what the catalog says.
func (c Catalog) targets() []Target {
	if len(c.Traffic) == 1 && c.alone(c.Latest) && c.Traffic[0].Tag == "" {
		return nil
	}
	return pin(c)
}

// Pause has a deployment hold at its next step. A new deploy ends the pause.
func Pause(d Desired) (Desired, error) {
	if err := d.stands(); err != nil {
		return Desired{}, err
	}
	if d.Paused {
		return Desired{}, refuse("go on by: fairlead resume "+d.Service, "service %s is paused already", d.Service)
	}
	next := d.next(Author{})
	next.Paused = true
	return next, nil
}

// Resume ends a pause.
func Resume(d Desired) (Desired, error) {
	if err := d.stands(); err != nil {
		return Desired{}, err
	}
	if !d.Paused {
		return Desired{}, refuse("", "service %s is not paused: there is nothing to resume", d.Service)
	}
	next := d.next(Author{})
	next.Paused = false
	return next, nil
}
