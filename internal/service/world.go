package service

import (
	"time"

	"github.com/fairlead-platform/fairlead/view"
)

// InstanceState is what a host knows of one process.
type InstanceState string

const (
	InstanceStarting InstanceState = "starting"
	InstanceLive     InstanceState = "live"     // runs, its own socket listens on its port, ready path answers
	InstanceDraining InstanceState = "draining" // withdrawn; no new leases
	InstanceExited   InstanceState = "exited"
)

// Instance is one process in a slot, as its host last reported it.
type Instance struct {
	ID       string `json:"id"` // one process's, never used again
	Slot     string `json:"slot"`
	Service  string `json:"service"`
	Revision string `json:"revision"`
	// Minted is which life of the revision's name it was started for; empty
	// when its host does not know.
	Minted  string        `json:"minted,omitempty"`
	Host    string        `json:"host"`
	Zone    string        `json:"zone"`
	Address string        `json:"address"` // host:port that it listens on
	State   InstanceState `json:"state"`
	Pid     int           `json:"pid"`
	// Restarts counts the slot's earlier processes under this assignment.
	Restarts int   `json:"restarts"`
	Round    int32 `json:"round"`
	// LiveFor is how long it has been live without a break, by the host's
	// monotonic clock, as of the report; zero when not live.
	LiveFor time.Duration `json:"liveFor"`
	// Detail is for people: what it listens on instead, how it exited, its last lines.
	Detail string `json:"detail,omitempty"`
	// LastLines of its output, when it is not live.
	LastLines []string `json:"lastLines,omitempty"`
	// ExitStatus is shown as text: "exit status 3", "signal: killed", "unknown (adopted)".
	ExitStatus string `json:"exitStatus,omitempty"`
	Adopted    bool   `json:"adopted,omitempty"`
	// Before says how the process before it in its slot ended by itself, and
	// its last line; empty when there was none.
	Before string `json:"before,omitempty"`
	// Word is what it says about itself.
	Word Word `json:"word,omitzero"`
	// Away are its credits that gateways have which its host does not hear,
	// :: gateway name → credits.
	Away map[string]int `json:"away,omitempty"`
}

// DetailAfter is an instance's detail together with how the process before it
// in its slot ended: a program that fails at once is mostly seen between two of
// its ends. An empty before means that there was none.
func DetailAfter(detail, before string) string {
	if before == "" {
		return detail
	}
	before = "the process before it ended with: " + before
	if detail == "" {
		return before
	}
	return detail + "; " + before
}

// EndText says how a process ended, with the last line of its output.
func EndText(status string, lines []string) string {
	if len(lines) == 0 {
		return status
	}
	return status + ": " + lines[len(lines)-1]
}

// Assignment asks a host to keep one slot running.
type Assignment struct {
	Slot     string `json:"slot"`
	Service  string `json:"service"`
	Revision string `json:"revision"`
	// Minted identifies this life of the revision's name, and of the slot's. A
	// process of another life is ended at once. Empty means any.
	Minted   string   `json:"minted,omitempty"`
	Group    string   `json:"group"`
	Template Template `json:"template"`
	// Round of restarts: a higher one replaces the process, the new one live
	// (and dwelt Dwell) before the old is withdrawn.
	Round int32 `json:"round"`
	// Dwell is how long a replacement must be live before the old one is withdrawn.
	Dwell time.Duration `json:"dwell"`
}

// Stop asks a host to end a slot: withdrawn first, then SIGTERM when no lease
// is held or Drain has passed, then 10 s later SIGKILL.
type Stop struct {
	Slot string `json:"slot"`
	// Minted, where set, spares the slot of another life of its name.
	Minted string        `json:"minted,omitempty"`
	Drain  time.Duration `json:"drain"` // zero means 30 s
	// Reason is logged and shown.
	Reason string `json:"reason,omitempty"`
}

// HostState is one host as the leader sees it now.
type HostState struct {
	Host
	Connected bool
	// Silent is how long nothing was heard, by the leader's monotonic clock.
	Silent time.Duration
	// Reported says that its instances are known since it connected.
	Reported  bool
	Instances []Instance
	// Answers is how often it told all that it runs.
	Answers uint64
	// Ended are instances of which it told within the last minute that they ended,
	// and which it lists no more; sorted.
	Ended []string
	// Leaving says that its process is ending in order, as it told; it holds
	// until the host attaches again.
	Leaving bool
	// Left says that it told at its end that nothing that it ran runs any more.
	Left bool
	// Free bytes on the disk of its folder; zero where it has not told.
	Free int64
	// Refuses says why it takes no more instances; empty when it does.
	Refuses string
}

// Release lets a host end that leaves: it is empty, or Reason says why what it
// runs is not served elsewhere first.
type Release struct {
	Empty  bool
	Reason string
}

// GatewayState is one gateway as the leader sees it now.
type GatewayState struct {
	Name      string
	Session   string // of its process: a new one means that it started anew
	Poll      string // the address that hosts dial
	Public    string // the address that requests come to
	Library   string // and version of its program, as it says
	Connected bool
	// Silent is how long nothing was heard, by the leader's monotonic clock.
	Silent time.Duration
	// Serves and Keeps as last acknowledged, on this connection or an earlier one.
	Serves view.Version
	Keeps  view.Version
	// ServesDigest is the digest of what is served.
	ServesDigest string
	// Drifted says that what it serves is not what was offered under the number
	// of its table: it may route by anything. Drifts counts since the leader
	// started how often that was found.
	Drifted bool
	Drifts  int
	// Sent is the newest version that was sent to it.
	Sent view.Version
	// Epoch is the highest that it said it has kept.
	Epoch view.Epoch
	// Refused entries, :: service → reason.
	Refused map[string]string
	// KeepError says why the served table cannot be kept on its disk; empty when it is.
	KeepError string
	// Polled are the hosts whose poll streams to it are open, as it last said.
	Polled []string
	// Waiting are requests in its queues, as it last said, :: service → how many.
	Waiting map[string]int
}

// LogQuery names whose output is wanted.
type LogQuery struct {
	Service  string
	Instance string // empty means every instance of the service
	Tail     int    // lines per instance; zero means 100
	Follow   bool
}

// LogLine is one line of an instance's output.
type LogLine struct {
	Instance, Revision, Text string
}
