// Package service is the pure core of the services layer: the records that
// describe what someone wants, what was made of it, what is published and what
// is true, and the rules that compare them. It has no clock, no I/O and no
// goroutine. Read [Desired], [Revision], [Routes] and [Catalog] first: each
// record has one job, and none is asked to do another's.
package service

import (
	"slices"
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// Kinds of documents in the store, each named by what Name holds.
const (
	KindDesired  = "desired"  // service name
	KindRevision = "revision" // revision name
	KindSaga     = "saga"     // saga identity
	KindRoutes   = "routes"   // service name
	KindCatalog  = "catalog"  // service name
	KindHostName = "hostname" // a host name: claimed by one service
	KindGateway  = "gateway"  // gateway name: membership, entered before its first table is sent
	KindHost     = "host"     // host name: membership
	KindDrill    = "drill"    // ULID: what was exercised, and its verdict
	KindEvent    = "event"    // service name + "." + ULID
	KindToken    = "token"    // join token id
	KindCaller   = "caller"   // name of a caller that was given an identity
	KindRevoked  = "revoked"  // ROLE.NAME of an identity that is refused
	KindLeader   = "leader"   // "epoch", "beat"

	KindContract   = "contract"   // service name: its health contract
	KindTransition = "transition" // service name + "." + tick + "." + handle
	KindProber     = "prober"     // prober name: membership, and what it looks at
	KindPolicy     = "policy"     // service name + "." + ULID: a change of its health contract or its policy
	KindGovernance = "governance" // service name: its policy
	KindGuard      = "guard"      // service name: trips of its guard that a person decides
	KindInstance   = "instance"   // instance: its row in the registry
	KindExternal   = "external"   // service name: endpoints of somebody else's
	KindHandles    = "handles"    // "instances": the first handle that was never given away
	KindPopulation = "population" // "subscribers": how many there are known to be
)

// Desired says what someone wants. It changes at any moment; Generation rises
// with every change. It may be a tombstone.
type Desired struct {
	Service    string `json:"service"`
	Generation int32  `json:"generation"`
	// Deleted makes it a tombstone: tear the service down, then remove this
	// document bound to the tombstone's version.
	Deleted   bool     `json:"deleted,omitempty"`
	Template  Template `json:"template"`
	Instances int      `json:"instances"`
	// HostNames declared beside NAME.localhost.
	HostNames []string `json:"hostNames,omitempty"`
	// Traffic is where requests shall go. Empty means all to the latest revision.
	Traffic []Target `json:"traffic,omitempty"`
	// Round rises when a restart of every instance is asked for.
	Round int32 `json:"round,omitempty"`
	// Force, when it changes, makes a new revision of an unchanged template.
	Force string `json:"force,omitempty"`
	// Paused has a deployment hold before its next step.
	Paused bool `json:"paused,omitempty"`
	// Aborted is the generation up to which attempts were ended by a person:
	// they are undone and not tried again. Zero means none.
	Aborted int32 `json:"aborted,omitempty"`
	// Asked is the generation that asked last for what is to run; a scale, a
	// restart or a change of traffic since then asks for nothing of it again.
	// Zero means this generation.
	Asked int32 `json:"asked,omitempty"`
	// By and At say who wrote this generation and when (shown, never decided by).
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// Target is a wanted share of traffic: a named revision, or the latest one.
type Target struct {
	Revision string `json:"revision,omitempty"` // empty means the latest
	Percent  int    `json:"percent"`
	Tag      string `json:"tag,omitempty"`
}

// Template is what a revision is made of. Its digest names the intent, so it
// holds neither instances, hosts, tags nor traffic.
type Template struct {
	// Command is the program and its arguments as given; $(VAR) is expanded by the host.
	Command []string `json:"command"`
	// Artifact is the digest ("sha256:…") of the file that Command[0] named, when it was a local file.
	Artifact string            `json:"artifact,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	// Dir is used in place as the working directory; empty means an empty folder of the instance's own.
	Dir string `json:"dir,omitempty"`
	// ReadyPath, when set, must answer 2xx or 3xx for an instance to be live.
	ReadyPath string `json:"readyPath,omitempty"`
	// User that the instance runs as; empty means the host's own.
	User string `json:"user,omitempty"`
	// Concurrency is how many requests an instance takes at once; zero means [DefaultConcurrency].
	Concurrency    int           `json:"concurrency,omitempty"`
	RequestTimeout time.Duration `json:"requestTimeout,omitempty"` // zero means 60 s
	Drain          time.Duration `json:"drain,omitempty"`          // zero means 30 s
	ReadyTimeout   time.Duration `json:"readyTimeout,omitempty"`   // zero means 60 s
	// Group is a shared request group; empty means the revision's own.
	Group string `json:"group,omitempty"`
	// Handover is "" (beside each other) or "exclusive".
	Handover   string `json:"handover,omitempty"`
	Idempotent bool   `json:"idempotent,omitempty"`
}

// DefaultConcurrency of an instance.
const DefaultConcurrency = 100

// HandoverExclusive is the Handover of a service that cannot bear two revisions
// running at once.
const HandoverExclusive = "exclusive"

// RevisionState is what a revision is for, as the catalog sees it.
type RevisionState string

const (
	RevisionPending RevisionState = "pending" // its deploy has not ended
	RevisionServing RevisionState = "serving" // named by the catalog, or was until just now
	RevisionRetired RevisionState = "retired" // stopped and collected
	RevisionFailed  RevisionState = "failed"  // its last attempt failed
)

// Revision is immutable but for its State. Named SERVICE-00001 and so on.
type Revision struct {
	Name    string        `json:"name"`
	Service string        `json:"service"`
	Number  int32         `json:"number"`
	Digest  string        `json:"digest"` // of Template (keyed), names the intent
	Force   string        `json:"force,omitempty"`
	State   RevisionState `json:"state"`
	// Minted identifies this life of the name: instant plus random (a ULID).
	Minted    string    `json:"minted"`
	CreatedAt time.Time `json:"createdAt"`
	// Generation that asked for it first.
	Generation int32    `json:"generation"`
	Template   Template `json:"template"`
	// Slots placed for it: the record of which host runs what. A scale edits it.
	Slots []Slot `json:"slots,omitempty"`
	// Leaving are slots that are to stop: recorded before the stop is sent, and
	// kept until their host has it on its disk.
	Leaving []Slot `json:"leaving,omitempty"`
	// NextIndex is that of the next slot; an index is never used again.
	NextIndex int `json:"nextIndex,omitempty"`
	// Round is the restart round that its slots run.
	Round int32 `json:"round,omitempty"`
	// Reason says why it is in its state, for people.
	Reason string `json:"reason,omitempty"`
}

// Slot is one place for an instance: "REVISION.INDEX" on a host. A restart is a
// new instance identity in the same slot.
type Slot struct {
	ID   string `json:"id"`
	Host string `json:"host"`
	Zone string `json:"zone"`
}

// Routes is what has been published for one service.
type Routes struct {
	Service string `json:"service"`
	// Plan in force; its view.Route.Sequence is the document's version in the
	// store and not kept inside.
	Plan view.Route `json:"plan"`
	// Earlier plans that some known gateway may still route by, newest first,
	// each with the sequence at which it was published. Pruned only when every
	// known gateway serves and keeps a later one.
	Earlier []PublishedPlan `json:"earlier,omitempty"`
	// Saga that published it, and why.
	Saga   string `json:"saga,omitempty"`
	Reason string `json:"reason,omitempty"`
	// At is when it was published (shown, never decided by).
	At time.Time `json:"at,omitzero"`
}

// Held says that the plan in force holds requests: they wait for what is to answer.
func (r Routes) Held() bool {
	return slices.ContainsFunc(r.Plan.Splits, func(p view.Split) bool { return p.Hold })
}

// PublishedPlan is a plan that was in force from Sequence on.
type PublishedPlan struct {
	Sequence uint64     `json:"sequence"`
	Plan     view.Route `json:"plan"`
}

// Catalog is what the rest of the system treats as true about one service.
type Catalog struct {
	Service string `json:"service"`
	// ObservedGeneration is the newest generation of the desired document that was applied.
	ObservedGeneration int32 `json:"observedGeneration"`
	// LastRevision is the highest revision number minted in this life of the service.
	LastRevision int32 `json:"lastRevision"`
	// Latest is the newest revision that finished its deploy.
	Latest  string        `json:"latest,omitempty"`
	Traffic []CatalogPart `json:"traffic,omitempty"`
	Hosts   []string      `json:"hosts,omitempty"` // host names that lead here
	Round   int32         `json:"round,omitempty"`
	// Instances that each serving revision had when it was last at the number
	// wanted; zero where none is recorded.
	Instances int `json:"instances,omitempty"`
	// NeedsOperator names a state that only a person can settle; empty means none.
	NeedsOperator string `json:"needsOperator,omitempty"`
	// Earlier are the revisions that led the traffic before, newest first, each
	// until when (shown, never decided by).
	Earlier []EarlierTraffic `json:"earlier,omitempty"`
	// Warm is the revision that led the traffic just before: it is kept running
	// for a window, by the leader's own clock, so that going back is one write.
	// WarmUntil is shown.
	Warm      string    `json:"warm,omitempty"`
	WarmUntil time.Time `json:"warmUntil,omitzero"`
}

// EarlierTraffic is one revision that led the traffic until an instant.
type EarlierTraffic struct {
	Revision string    `json:"revision"`
	Ended    time.Time `json:"ended"`
}

// CatalogPart is one share of the traffic that the catalog records.
type CatalogPart struct {
	Revision string `json:"revision"`
	Percent  int    `json:"percent"`
	Tag      string `json:"tag,omitempty"`
	Group    string `json:"group"`
}

// HostClaim says which service a host name leads to. It is written with the
// desired document that declares the name, and erased when no route leads there.
type HostClaim struct {
	Service string `json:"service"`
}

// Gateway is one known gateway: entered before its first table is sent, and
// kept until it says goodbye, is retired, or has been absent for an hour while
// more than half of the others were heard.
type Gateway struct {
	Name    string `json:"name"`
	Session string `json:"session"` // of its process
	// Poll is the address that hosts dial.
	Poll string `json:"poll"`
	// Public is the address that requests come to, for URLs.
	Public string `json:"public"`
	// Serves and Keeps are the oldest versions that it may still route by: what
	// it last acknowledged as served, and as kept on disk. Recorded late, they
	// only keep more alive.
	Serves  view.Version `json:"serves"`
	Keeps   view.Version `json:"keeps"`
	Entered time.Time    `json:"entered"`
}

// Host is one known host.
type Host struct {
	Name    string    `json:"name"`
	Zone    string    `json:"zone"`
	Entered time.Time `json:"entered"`
	// Retired says that a person ended its membership: nothing waits for it.
	// The record stays, because slots may name it; attaching again ends it.
	Retired bool `json:"retired,omitempty"`
	// Draining says that a person wants nothing to run there.
	Draining bool `json:"draining,omitempty"`
}

// Event is one line of a service's history.
type Event struct {
	Service    string    `json:"service"`
	At         time.Time `json:"at"`
	Generation int32     `json:"generation,omitempty"`
	Revision   string    `json:"revision,omitempty"`
	Attempt    int32     `json:"attempt,omitempty"`
	Kind       string    `json:"kind"` // e.g. "step", "routes", "instance", "needs-operator"
	Text       string    `json:"text"`
}
