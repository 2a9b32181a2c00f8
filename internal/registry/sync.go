package registry

import (
	"cmp"
	"slices"
)

// Listing is one answer of a source about all that it is the authority of: a
// host about its processes, a lease service about its leases.
type Listing struct {
	Source Source
	// Host narrows the answer to one host's instances; empty is all of the source's.
	Host string
	// Again says that it is an answer that was taken before: what it lacks is
	// missing from no more answers than then.
	Again bool
	Rows  []Instance
}

// Synced is what a listing changed.
type Synced struct {
	Changed []Instance // new, or otherwise
	Gone    []Instance // the authority saw them end, or a drop was confirmed
	Held    []Instance // no longer listed, and held: too much at once for one answer
}

// heldShare of a service's instances may vanish from one answer without being
// held, in thousandths: the guard's share.
const heldShare = 500

// confirmed is the number of listings without an instance after which its
// absence counts.
const confirmed = 2

// Sync takes a listing. Explained says whether what is missing is meant to be: its
// authority told that it ended, or a stop was asked for. Who is the only one of
// its service there is no less than many: one answer without it is held too.
func (r *Registry) Sync(l Listing, explained func(Instance) bool) Synced {
	var out Synced
	listed := make(map[string]bool, len(l.Rows))
	for _, x := range l.Rows {
		x.Source, listed[x.ID] = l.Source, true
		if row, changed := r.Put(x); changed {
			out.Changed = append(out.Changed, row)
		}
	}
	for _, service := range r.Services() {
		missing, all := r.missing(service, l, listed)
		unexplained := slices.DeleteFunc(slices.Clone(missing), explained)
		hold := len(unexplained)*1000 > heldShare*all
		for _, x := range missing {
			r.absent(x, hold && !explained(x), l.Again, &out)
		}
	}
	byID := func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(out.Gone, byID)
	slices.SortFunc(out.Held, byID)
	return out
}

// missing are the instances that the listing is the authority of and lacks,
// and how many of the service it is the authority of.
func (r *Registry) missing(service string, l Listing, listed map[string]bool) (missing []Instance, all int) {
	for _, x := range r.Of(service) {
		if x.Source != l.Source || l.Host != "" && x.Host != l.Host || x.Gone {
			continue
		}
		all++
		if !listed[x.ID] {
			missing = append(missing, x)
		}
	}
	return missing, all
}

// absent notes that an instance was not listed: it is gone, or held.
func (r *Registry) absent(x Instance, hold, again bool, out *Synced) {
	if hold && again && x.Missing > 0 {
		return
	}
	x.Missing++
	if hold && x.Missing < confirmed {
		r.Put(x)
		out.Held = append(out.Held, x)
		return
	}
	x.Gone, x.Missing = true, 0
	r.Put(x)
	out.Gone = append(out.Gone, x)
}
