package discovery

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/fairlead-platform/fairlead/internal/registry"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// lagging is how old an authority's last word may be before it counts as one
// that does not answer.
const lagging = 10 * time.Second

// SourceState is one authority on which instances exist, beside the registry.
type SourceState struct {
	Source             registry.Source
	Name               string // of the authority: a host's, who registered leases, the service of somebody else's
	Listed, Registered int
	// Lag is how old its last word is; Heard is false where there was none
	// since this control leads.
	Lag   time.Duration
	Heard bool
}

// Answers says that its word is as fresh as it should be.
func (s SourceState) Answers() bool {
	if s.Source == registry.Lease { // a renewal now and then is all that is to be heard
		return s.Heard && s.Lag <= LeaseFor*time.Second
	}
	return s.Heard && s.Lag < lagging
}

// Kinds of differences; else it is a field's name.
const (
	Unregistered = "unregistered" // the authority lists it, the registry has no row
	Missing      = "missing"      // the registry has a row, the authority does not list it
	HeldDrop     = "held"         // so too, by an answer that dropped too many at once
	Lapsed       = "lapsed"       // the registry has a row whose lease was not renewed in time
)

// Difference is one instance of which authority and registry do not say the
// same.
type Difference struct {
	Source              registry.Source
	Name                string // of the authority
	Service, Instance   string
	What                string
	Authority, Registry string // what each says
}

// Runtime compares what the authorities say with the registry, row by row.
// False says that nothing is known: this control does not lead.
func (p *Plane) Runtime() (sources []SourceState, differences []Difference, observing bool) {
	t := p.current()
	if t == nil {
		return nil, nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	sources, differences = t.compareHosts()
	for _, compare := range []func() ([]SourceState, []Difference){t.compareLeases, t.compareExternals} {
		s, d := compare()
		sources, differences = append(sources, s...), append(differences, d...)
	}
	return sources, differences, true
}

// compareHosts compares each host's listing with the rows of that host.
func (t *term) compareHosts() (sources []SourceState, out []Difference) {
	rows := map[string][]registry.Instance{} // :: host → its rows
	for _, name := range t.reg.Services() {
		for _, x := range t.reg.Of(name) {
			if x.Source == registry.Host {
				rows[x.Host] = append(rows[x.Host], x)
			}
		}
	}
	for _, h := range t.p.cfg.Hosts.States() {
		s := SourceState{Source: registry.Host, Name: h.Name, Lag: h.Silent, Heard: h.Reported, Listed: running(h), Registered: present(rows[h.Name])}
		sources = append(sources, s)
		if h.Reported {
			out = append(out, t.compareHost(h, rows[h.Name])...)
		}
		delete(rows, h.Name)
	}
	for name, left := range rows { // known by the store, and not heard since this control leads
		sources = append(sources, SourceState{Source: registry.Host, Name: name, Registered: present(left)})
	}
	slices.SortFunc(sources, func(a, b SourceState) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Instance, b.Instance))
	})
	return sources, out
}

func (t *term) compareHost(h service.HostState, rows []registry.Instance) (out []Difference) {
	listed := map[string]bool{} // :: instance → the host names it
	for _, i := range h.Instances {
		listed[i.ID] = true
		x, known := t.reg.Get(i.ID)
		switch said := t.row(h, i); {
		case !known && i.State == service.InstanceExited: // it ended before it was ever seen
		case !known:
			out = append(out, differ(said, Unregistered, string(i.State), "-"))
		default:
			out = append(out, fieldsDiffer(said, x)...)
		}
	}
	for _, x := range rows {
		switch {
		case listed[x.ID] || x.Gone:
		case x.Missing > 0:
			out = append(out, differ(x, HeldDrop, "-", "registered"))
		default:
			out = append(out, differ(x, Missing, "-", "registered"))
		}
	}
	return out
}

func differ(x registry.Instance, what, authority, row string) Difference {
	return Difference{Source: x.Source, Name: x.Host, Service: x.Service, Instance: x.ID, What: what, Authority: authority, Registry: row}
}

// fieldsDiffer compares what the authority says of an instance with its row.
func fieldsDiffer(said, row registry.Instance) (out []Difference) {
	for _, f := range []struct{ name, said, row string }{
		{"service", said.Service, row.Service},
		{"host", said.Host, row.Host},
		{"revision", said.Revision, row.Revision},
		{"slot", said.Slot, row.Slot},
		{"zone", said.Zone, row.Zone},
		{"address", said.Address, row.Address},
		{"listening", strconv.FormatBool(said.Listening), strconv.FormatBool(row.Listening)},
		{"terminating", strconv.FormatBool(said.Terminating), strconv.FormatBool(row.Terminating)},
		{"gone", strconv.FormatBool(said.Gone), strconv.FormatBool(row.Gone)},
	} {
		if f.said != f.row {
			out = append(out, differ(said, f.name, f.said, f.row))
		}
	}
	return out
}

func running(h service.HostState) (n int) {
	for _, i := range h.Instances {
		if i.State != service.InstanceExited {
			n++
		}
	}
	return n
}

func present(rows []registry.Instance) (n int) {
	for _, x := range rows {
		if !x.Gone {
			n++
		}
	}
	return n
}
