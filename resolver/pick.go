package resolver

import (
	"slices"
	"sort"

	"github.com/fairlead-platform/fairlead/view"
)

// Outcome is what became of one request to a picked endpoint.
type Outcome uint8

const (
	// Unknown says nothing of the endpoint: the caller gave up, or something
	// of his own failed.
	Unknown Outcome = iota
	// Good: it answered, and not that it failed.
	Good
	// Failed: no answer, one that could not be read, or one that says that it
	// failed (of HTTP a status of 500 and above).
	Failed
	// Refused: nothing listens at its address.
	Refused
	// Stale: another instance answers at its address. Nobody is charged.
	Stale
)

func (o Outcome) String() string {
	return [...]string{"unknown", "good", "failed", "refused", "stale"}[min(o, Stale)]
}

// Pick is one endpoint for one request. Call Done once when the request has
// ended: until then it counts as in flight. A Pick is used by one goroutine at
// a time and not copied; the zero Pick is of no endpoint.
type Pick struct {
	m *member
	p *pool
}

// Endpoint that was picked. Of a configured fallback only its address is known.
func (p *Pick) Endpoint() view.Endpoint {
	if p.m == nil {
		return view.Endpoint{}
	}
	return *p.m.Endpoint
}

// ID is the identity of the instance that was picked; empty for a configured
// fallback.
func (p *Pick) ID() string {
	if p.m == nil {
		return ""
	}
	return p.m.ID
}

// Address is host:port, or a URL; shape as in the view.
func (p *Pick) Address() string {
	if p.m == nil {
		return ""
	}
	return p.m.Address
}

// Done says what became of the request. Calls after the first do nothing.
func (p *Pick) Done(o Outcome) { p.DoneBytes(o, 0) }

// DoneBytes is Done that says how many bytes of request and response went over
// the wire, about.
func (p *Pick) DoneBytes(o Outcome, bytes uint64) {
	m := p.m
	if m == nil {
		return
	}
	p.m = nil
	m.inflight.Add(-1)
	if bytes > 0 {
		m.bytes.Add(bytes)
	}
	p.p.count(m.node, o)
}

// Option narrows a pick down. Options are made by the functions below.
type Option struct {
	kind  uint8
	value string
}

const (
	optExclude = iota
	optExcludeAddress
	optInstance
	optRevision
	optRequireVerified
	optPreferVerified
	optRetry
	optTag
)

// Exclude leaves one instance out, by its identity: it was tried already.
func Exclude(id string) Option { return Option{optExclude, id} }

// Exclude leaves the endpoint of this pick out of another one. It is asked
// before Done.
func (p *Pick) Exclude() Option {
	if p.m != nil && p.m.ID == "" { // of a fallback
		return Option{optExcludeAddress, p.m.Address}
	}
	return Exclude(p.ID())
}

// Instance picks this one, by its identity, as long as it is in rotation.
func Instance(id string) Option { return Option{optInstance, id} }

// Revision picks among the instances of one revision, by its name.
func Revision(name string) Option { return Option{optRevision, name} }

// Tag picks among the instances of the revisions that a tag of the service's route
// names, e.g. "canary". Where there is no such tag nothing matches, and so it is
// with a configured fallback.
func Tag(name string) Option { return Option{optTag, name} }

// RequireVerified picks among those whose health somebody has seen: an
// endpoint whose runtime supplies no signal, or whose verdict is unknown, does
// not do.
func RequireVerified() Option { return Option{kind: optRequireVerified} }

// PreferVerified is RequireVerified where one does, and nothing where none does.
func PreferVerified() Option { return Option{kind: optPreferVerified} }

// Retry says that the pick is for a request that failed once: it is taken from
// the service's retry budget, and refused with ErrRetryBudget where that is
// spent.
func Retry() Option { return Option{kind: optRetry} }

// Verified says whether somebody has seen how the endpoint does.
func Verified(e view.Endpoint) bool {
	return !e.HealthUnknown && (e.Verdict == view.Eligible || e.Verdict == view.Degraded)
}

// filter is what options ask of an endpoint.
type filter struct {
	options  []Option
	verified bool // required, or preferred and not yet given up
	names    bool // whom it takes, so that also who draws nothing does
	tagged   []string
	byTag    bool // of tagged only
}

func (f *filter) takes(m *member) bool {
	for i := range f.options {
		switch o := &f.options[i]; {
		case o.kind == optExclude && m.ID == o.value, o.kind == optExcludeAddress && m.Address == o.value,
			o.kind == optInstance && m.ID != o.value, o.kind == optRevision && m.Revision != o.value:
			return false
		}
	}
	if f.byTag && !slices.Contains(f.tagged, m.Revision) {
		return false
	}
	return !f.verified || Verified(*m.Endpoint)
}

// Pick an instance of the service. It never waits, takes no lock and does not
// allocate, but for one right after Open that is the first of its service: it
// works the view out that is on disk, unless that has been done. The error is a [*PickError], at once.
func (r *Resolver) Pick(service string, options ...Option) (Pick, error) {
	p := (*r.pools.Load())[service]
	if p == nil {
		return Pick{}, &PickError{service, ErrNotSubscribed}
	}
	t := p.table.Load()
	if t == nil {
		if t = p.first(); t == nil {
			p.calls.refused()
			return Pick{}, p.refusals.noView
		}
	}
	var m *member
	if len(options) == 0 {
		m = t.pick()
	} else {
		var why *PickError
		if m, why = p.pickBy(t, options); why != nil {
			return Pick{}, why
		}
	}
	if m == nil {
		p.calls.refused()
		return Pick{}, p.refusals.noEndpoint
	}
	m.inflight.Add(1)
	return Pick{m, p}, nil
}

// pickBy picks among those that the options leave.
func (p *pool) pickBy(t *table, options []Option) (*member, *PickError) {
	if len(t.members) == 0 {
		return nil, p.refusals.noEndpoint
	}
	f := filter{options: options}
	required, retry := false, false
	var one *member
	for i := range options {
		switch options[i].kind {
		case optInstance:
			one, f.names = t.find(options[i].value), true
		case optRevision:
			f.names = true
		case optRequireVerified:
			required, f.verified = true, true
		case optPreferVerified:
			f.verified = true
		case optTag: // of two tags, what both name
			named := t.view.Tagged(options[i].value)
			if f.byTag {
				named = both(f.tagged, named)
			}
			f.tagged, f.byTag, f.names = named, true, true
		case optRetry:
			retry = true
		}
	}
	m := t.pickFiltered(&f, one)
	if m == nil && f.verified && !required {
		f.verified = false
		m = t.pickFiltered(&f, one)
	}
	if m == nil {
		return nil, p.refusals.noMatch
	}
	if retry && !p.budget.take() {
		return nil, p.refusals.budget
	}
	return m, nil
}

// both are the names in a and b.
func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// find a member by its identity; nil where it is not in rotation.
func (t *table) find(id string) *member {
	at := sort.Search(len(t.members), func(i int) bool { return t.members[i].ID >= id })
	if at == len(t.members) || t.members[at].ID != id {
		return nil
	}
	return t.members[at]
}

// pickFiltered tries the one that is asked for, where one is, then a few picks,
// and then looks through all.
func (t *table) pickFiltered(f *filter, one *member) *member {
	if one != nil && f.takes(one) {
		return one
	}
	for range draws {
		if m := t.pick(); m != nil && f.takes(m) {
			return m
		}
	}
	return t.search(f)
}
