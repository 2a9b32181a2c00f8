package discovery

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/internal/registry"
)

// compareLeases compares what holds leases with what renewed them, by who
// registered it: a lease's holder is the authority on it.
func (t *term) compareLeases() (sources []SourceState, out []Difference) {
	by := map[string]*SourceState{} // :: who registered → state
	now := t.eval.Now()
	for _, x := range t.rowsOf(registry.Lease) {
		s := by[x.By]
		if s == nil {
			s = &SourceState{Source: registry.Lease, Name: x.By, Lag: 1 << 62}
			by[x.By] = s
		}
		s.Registered++
		at, renewed := t.renewed[x.ID]
		if !renewed {
			continue
		}
		age := time.Duration(max(now-at, 0)) * time.Second
		s.Heard, s.Lag = true, min(s.Lag, age)
		if x.Missing == 0 {
			s.Listed++
			continue
		}
		d := differ(x, Lapsed, fmt.Sprintf("renewed %s ago", age), "registered")
		d.Name = x.By
		out = append(out, d)
	}
	for _, s := range by {
		sources = append(sources, *s)
	}
	slices.SortFunc(sources, func(a, b SourceState) int { return cmp.Compare(a.Name, b.Name) })
	return sources, out
}

// compareExternals compares what is declared of somebody else's services with
// the rows of it.
func (t *term) compareExternals() (sources []SourceState, out []Difference) {
	rows := map[string][]registry.Instance{} // :: service → its rows
	for _, x := range t.rowsOf(registry.External) {
		rows[x.Service] = append(rows[x.Service], x)
	}
	declared := map[string][]registry.Instance{} // :: service → as it is declared
	for _, x := range t.declared {
		declared[x.Service] = append(declared[x.Service], x)
		if rows[x.Service] == nil {
			rows[x.Service] = []registry.Instance{}
		}
	}
	for name, has := range rows {
		said := declared[name]
		sources = append(sources, SourceState{
			Source: registry.External, Name: name, Listed: len(said), Registered: len(has), Heard: !t.declaredAt.IsZero(), Lag: t.declarationLag(),
		})
		for _, x := range said {
			i := slices.IndexFunc(has, func(y registry.Instance) bool { return x.ID == y.ID })
			if i < 0 {
				out = append(out, named(differ(x, Unregistered, x.Address, "-"), name))
				continue
			}
			for _, d := range fieldsDiffer(x, has[i]) {
				out = append(out, named(d, name))
			}
		}
		for _, x := range has {
			if !slices.ContainsFunc(said, func(y registry.Instance) bool { return x.ID == y.ID }) {
				out = append(out, named(differ(x, Missing, "-", x.Address), name))
			}
		}
	}
	slices.SortFunc(sources, func(a, b SourceState) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.What, b.What))
	})
	return sources, out
}

func named(d Difference, name string) Difference {
	d.Name = name
	return d
}

// declarationLag is for how long declarations could not be read that there
// are; zero while they can.
func (t *term) declarationLag() time.Duration {
	if t.declaredBad.IsZero() {
		return 0
	}
	return time.Since(t.declaredBad)
}

// rowsOf are the rows of one source that are not gone.
func (t *term) rowsOf(source registry.Source) (all []registry.Instance) {
	for _, name := range t.reg.Services() {
		for _, x := range t.reg.Of(name) {
			if x.Source == source && !x.Gone {
				all = append(all, x)
			}
		}
	}
	return all
}
