package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/routing"
	"github.com/fairlead-platform/fairlead/view"
)

const roleGateway = "gateway"

// Router is a gateway, or all callers of one name, as the table of who may route
// by what has them before a drill and after.
type Router struct {
	Role, Name string
	// Before and After are how many of its processes are connected.
	Before, After int
	// Services whose views it held before, and of how many of them it holds the
	// newest now.
	Services, Current int
	// Serves is the table that a gateway routes by now.
	Serves view.Version
	// Silent is how long nothing was heard of it.
	Silent time.Duration
	// Against are the reasons, in words, why it does not stand as before.
	Against []string
}

func (r Router) who() string { return r.Role + "/" + r.Name }

// who is a name in the table: of a caller or a service there may be many
// processes, which come back here or at a relay.
type who struct{ role, name string }

// stand is how all processes of one name stand to one service.
type stand struct {
	processes, bare int          // connected; of them without any view
	lowest          view.Version // that one of them holds; zero is none
	current         bool
	serves          view.Version
	unlike          bool // a gateway that may route to anything
	silent          time.Duration
}

func standsOf(s routing.Standing) map[who]stand {
	out := map[who]stand{}
	for _, r := range s.Routers {
		key := who{r.Role, r.Name}
		x := out[key]
		if !r.Connected {
			if r.Role == roleGateway {
				out[key] = x // a member that is not heard is asked for as well
			}
			continue
		}
		x.processes++
		x.silent = max(x.silent, r.Silent)
		x.current = r.View == s.Published && (x.processes == 1 || x.current)
		x.serves, x.unlike = r.Serves, len(r.MayRoute) == 1 && r.MayRoute[0] == "anything"
		switch {
		case r.View.Zero():
			x.bare++
		case x.lowest.Zero() || r.View.Against(x.lowest) == view.Older:
			x.lowest = r.View
		}
		out[key] = x
	}
	return out
}

// Doubts name who would not route as they should without control, by the table
// as it is: whoever holds nothing to route by, and gateways that are behind.
func Doubts(table []routing.Standing) (out []string) {
	bare := map[who][]string{}      // :: caller → services of which it holds no view
	gateways := map[string]string{} // :: gateway → why
	var unheard []string
	for _, s := range table {
		for key, x := range standsOf(s) {
			if key.role != roleGateway && x.bare > 0 && !s.Published.Zero() {
				bare[key] = append(bare[key], s.Service)
			}
		}
		for _, r := range s.Routers {
			if why := doubtOf(s.Service, r); why != "" && gateways[r.Name] == "" {
				gateways[r.Name] = why
			}
		}
		unheard = append(unheard, s.Unheard...)
	}
	for key, services := range bare {
		out = append(out, fmt.Sprintf("%s/%s holds no view of %s: its calls there have nowhere to go", key.role, key.name, list(services)))
	}
	for name, why := range gateways {
		out = append(out, "gateway/"+name+" "+why)
	}
	slices.Sort(unheard)
	for _, relay := range slices.Compact(unheard) {
		out = append(out, relay+" did not say who subscribes there")
	}
	slices.Sort(out)
	return out
}

// doubtOf says what is wrong with a gateway; empty is nothing.
func doubtOf(service string, r routing.Router) string {
	switch {
	case r.Role != roleGateway:
		return ""
	case !r.Connected:
		return "is not heard: it routes by what it held, if it lives"
	case r.Serves.Zero():
		return "serves no table: requests there have nowhere to go"
	case len(r.MayRoute) > 0 && r.Serves == r.Keeps:
		return fmt.Sprintf("is behind: it serves table %s, by which it may route %s to %s", r.Serves, service, strings.Join(r.MayRoute, ", "))
	case len(r.MayRoute) > 0:
		return fmt.Sprintf("serves table %s and has %s on its disk: it may route %s to %s, at the latest when it is started anew", r.Serves, cmp.Or(r.Keeps.String(), "none"), service, strings.Join(r.MayRoute, ", "))
	}
	return ""
}

// Asks says that it is time to look at the table again: often once every stream
// is back, else now and then, as whoever left one door may come by another.
func (d *Drill) Asks(now time.Duration) bool {
	every := askEvery
	if !d.whole() && now-d.answered < returnWithin {
		every = askMeanwhile
	}
	return d.State == Return && now-max(d.asked, d.answered) >= every
}

// Ask takes in the table as it is now. The drill is over once everybody who was
// in it before stands as before or better, or has had the time to.
func (d *Drill) Ask(now time.Duration, table []routing.Standing) {
	if d.State != Return {
		return
	}
	d.asked = now
	d.compare(table)
	d.findElsewhere(now, table)
	good := d.whole() && len(d.short) == 0 && !slices.ContainsFunc(d.Routers, func(r Router) bool { return len(r.Against) > 0 })
	if good || now-d.answered >= returnWithin {
		d.State, d.ended = Over, now
	}
}

// findElsewhere counts those as back who are in the table by a relay, with what
// they said there of the time since the drill began.
func (d *Drill) findElsewhere(now time.Duration, table []routing.Standing) {
	said := map[who][]*routing.Away{} // :: caller → what its processes said at relays
	for _, s := range table {
		here := map[who][]*routing.Away{}
		for _, r := range s.Routers {
			if !r.Connected || r.Via == "" && r.Role != roleGateway { // a gateway's view may be a relay's too
				continue
			}
			if d.relayed = d.relayed || r.Via != ""; r.Away != nil && r.Away.For <= now-d.began+explained {
				here[who{r.Role, r.Name}] = append(here[who{r.Role, r.Name}], r.Away)
			}
		}
		for key, all := range here {
			if len(all) > len(said[key]) {
				said[key] = all
			}
		}
	}
	for i := range d.Parties {
		p := &d.Parties[i]
		r := d.router(p.Role, p.Name)
		if p.Back || r == nil || r.After < r.Before {
			continue
		}
		p.Back, p.Elsewhere, p.BackAfter = true, true, now-d.answered
		if key := (who{p.Role, p.Name}); len(said[key]) > 0 {
			a := said[key][0]
			said[key] = said[key][1:]
			p.Said = &Said{Away: a.For, Calls: a.Calls, Failed: a.Failed, Unroutable: a.Unroutable}
		}
	}
}

func (d *Drill) router(role, name string) *Router {
	for i := range d.Routers {
		if d.Routers[i].Role == role && d.Routers[i].Name == name {
			return &d.Routers[i]
		}
	}
	return nil
}

// compare says of each router of the table before how it stands by the one of now.
func (d *Drill) compare(table []routing.Standing) {
	now := make(map[string]routing.Standing, len(table)) // :: service → standing
	for _, s := range table {
		now[s.Service] = s
	}
	all := map[who]*Router{}
	d.short = nil
	for _, before := range d.table {
		after := now[before.Service]
		if after.Ending {
			continue // what a person ended meanwhile is missed by nobody
		}
		d.compareService(all, before, after)
	}
	d.Routers = d.Routers[:0]
	for _, r := range all {
		d.Routers = append(d.Routers, *r)
	}
	slices.SortFunc(d.Routers, func(a, b Router) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name)) })
}

func (d *Drill) compareService(all map[who]*Router, before, after routing.Standing) {
	stands := standsOf(after)
	named := before.More == 0 && after.More == 0 // else who is not found may be one who is not named
	for key, was := range standsOf(before) {
		r := all[key]
		if r == nil {
			r = &Router{Role: key.role, Name: key.name}
			all[key] = r
		}
		is := stands[key]
		r.Before, r.After = max(r.Before, was.processes), max(r.After, is.processes)
		r.Silent, r.Serves = max(r.Silent, is.silent), is.serves
		if !was.lowest.Zero() {
			if r.Services++; is.current {
				r.Current++
			}
		}
		if is.processes < was.processes && named {
			r.against(fmt.Sprintf("%d of %d that route %s are missing", was.processes-is.processes, was.processes, before.Service))
		} else if is.processes > 0 {
			r.against(worse(before.Service, key, was, is))
		}
	}
	if !named && after.Callers < before.Callers {
		d.short = append(d.short, fmt.Sprintf("%d of %d that hold the view of %s are missing", before.Callers-after.Callers, before.Callers, before.Service))
	}
	for _, relay := range after.Unheard {
		if why := relay + " does not say who subscribes there"; !slices.Contains(d.short, why) {
			d.short = append(d.short, why)
		}
	}
}

// against adds a reason once.
func (r *Router) against(why string) {
	if why != "" && !slices.Contains(r.Against, why) {
		r.Against = append(r.Against, why)
	}
}

// worse says in which respect one stands worse than it did; empty is in none.
func worse(service string, key who, was, is stand) string {
	switch {
	case key.role == roleGateway && !was.serves.Zero() && is.serves.Zero():
		return "serves no table any more"
	case key.role == roleGateway && (is.serves.Against(was.serves) == view.Older || is.unlike && !was.unlike):
		return fmt.Sprintf("serves table %s, which is not what it served before (%s) nor a later one", is.serves, was.serves)
	case is.bare > was.bare && !was.lowest.Zero():
		return "holds no view of " + service + " any more"
	case !was.lowest.Zero() && is.lowest.Against(was.lowest) == view.Older:
		return fmt.Sprintf("holds view %s of %s, which is earlier than before (%s)", is.lowest, service, was.lowest)
	}
	return ""
}
