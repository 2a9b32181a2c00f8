package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Socket names a kind of listening socket.
type Socket string

// The sockets between parts.
const (
	SocketControl     Socket = "control"      // API and streams, by TLS
	SocketRelay       Socket = "relay"        // callers dial relays
	SocketGatewayPoll Socket = "gateway-poll" // hosts dial gateways
	SocketLocal       Socket = "local"        // the API by a UNIX socket
)

// Who is the subject of a rule: a role with a valid identity, or one of the two
// that are less.
type Who string

// Peers that are no role.
const (
	Nobody  Who = "nobody"  // no certificate
	Expired Who = "expired" // any role's, out of time
)

// Rule lets one kind of peer call some procedures on one socket.
type Rule struct {
	Who    Who
	Socket Socket
	// Procedures are gRPC's full method names without the slash in front;
	// "Service/*" is all of a service.
	Procedures []string
}

const (
	procJoin  = "fairlead.v1.IdentityService/Join"
	procRenew = "fairlead.v1.IdentityService/Renew"
	// An operator makes callers, a host the identities of what it runs.
	procIssueCaller  = "fairlead.v1.IdentityService/IssueCaller"
	procIssueService = "fairlead.v1.IdentityService/IssueService"
	procRevoke       = "fairlead.v1.IdentityService/RevokeIdentity"
	procIdentities   = "fairlead.v1.IdentityService/ListIdentities"
	procRefusals     = "fairlead.v1.IdentityService/FollowRefusals"
	// What every caller does: hold views, and report what became of calls.
	procSubscribe = "fairlead.v1.SubscriptionService/*"
	procReport    = "fairlead.v1.EvidenceService/ReportOutcomes"
	procMerged    = "fairlead.v1.EvidenceService/ReportMerged"
	procRegister  = "fairlead.v1.RegistryService/*"
	procResolve   = "fairlead.v1.ResolveService/*"
)

// Rules is the whole table: what is not in it is refused.
func Rules() []Rule {
	operatorAPI := []string{"fairlead.v1.ServiceAPIService/*", "fairlead.v1.AdminAPIService/*", "fairlead.v1.DiscoveryAPIService/*", procRegister, procResolve, procIssueCaller, procRevoke, procIdentities}
	return []Rule{
		{Nobody, SocketControl, []string{procJoin}},
		{Expired, SocketControl, []string{procRenew}},
		{Who(Host), SocketControl, []string{"fairlead.v1.HostControlService/*", procIssueService, procRenew}},
		{Who(Gateway), SocketControl, []string{"fairlead.v1.ViewService/*", procSubscribe, procReport, procRenew}},
		{Who(Relay), SocketControl, []string{procSubscribe, procReport, procMerged, procRefusals, procRenew}},
		{Who(Prober), SocketControl, []string{"fairlead.v1.ProbeService/*", procRenew}},
		{Who(Agent), SocketControl, []string{procSubscribe, procReport, procResolve, procRenew}},
		{Who(Caller), SocketControl, []string{procSubscribe, procReport, procResolve, procRegister, procRenew}},
		{Who(Service), SocketControl, []string{procSubscribe, procReport, procResolve, procRegister, procRenew}},
		{Who(Operator), SocketControl, append([]string{procRenew}, operatorAPI...)},
		{Who(Operator), SocketLocal, operatorAPI},
		{Who(Gateway), SocketRelay, []string{procSubscribe, procReport}},
		{Who(Relay), SocketRelay, []string{procSubscribe, procReport}},
		{Who(Agent), SocketRelay, []string{procSubscribe, procReport}},
		{Who(Caller), SocketRelay, []string{procSubscribe, procReport}},
		{Who(Service), SocketRelay, []string{procSubscribe, procReport}},
		{Who(Host), SocketGatewayPoll, []string{"fairlead.v1.PollService/*"}},
		// Control needs nothing of another control yet.
	}
}

// ErrForbidden is wrapped by every refusal of [May].
var ErrForbidden = errors.New("forbidden")

// ForbiddenError says what was refused to whom.
type ForbiddenError struct {
	Peer      Peer
	Who       Who
	Socket    Socket
	Procedure string
}

func (e *ForbiddenError) Error() string {
	return fmt.Sprintf("forbidden: %s may not call %s on socket %s (known there as %s)", e.Peer, e.Procedure, e.Socket, e.Who)
}

// Unwrap makes errors.Is(err, ErrForbidden) true.
func (e *ForbiddenError) Unwrap() error { return ErrForbidden }

// Hint says what the refused peer can do, or nothing.
func (e *ForbiddenError) Hint() string {
	switch e.Who {
	case Nobody:
		return "show a client certificate: join with a token, or use the operator credential"
	case Expired:
		return "the identity has expired: renew it, or join again with a new token"
	default:
		return ""
	}
}

// Who is the peer's place in the table.
func (p Peer) Who() Who {
	switch {
	case p.Anonymous():
		return Nobody
	case p.Expired:
		return Expired
	default:
		return Who(p.ID.Role)
	}
}

// May says whether the peer may call the procedure (a gRPC full method name,
// with or without the slash in front) on the socket: nil, or a
// [*ForbiddenError].
func May(socket Socket, procedure string, peer Peer) error {
	procedure = strings.TrimPrefix(procedure, "/")
	who := peer.Who()
	// Only a UNIX socket makes a local peer, and nothing else comes by one.
	if peer.Local == (socket == SocketLocal) {
		for _, r := range Rules() {
			if r.Who == who && r.Socket == socket && r.covers(procedure) {
				return nil
			}
		}
	}
	return &ForbiddenError{Peer: peer, Who: who, Socket: socket, Procedure: procedure}
}

// named says whether some rule is about the procedure.
func named(procedure string) bool {
	procedure = strings.TrimPrefix(procedure, "/")
	return slices.ContainsFunc(Rules(), func(r Rule) bool { return r.covers(procedure) })
}

// allowedText says in words what a peer may call on a socket.
func allowedText(socket Socket, who Who) string {
	var paths []string
	for _, r := range Rules() {
		if r.Who != who || r.Socket != socket {
			continue
		}
		for _, p := range r.Procedures {
			paths = append(paths, "/"+strings.Replace(p, "/*", "/METHOD", 1))
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return "paths are " + strings.Join(paths, " and ")
}

func (r Rule) covers(procedure string) bool {
	service, method, ok := strings.Cut(procedure, "/")
	if !ok || method == "" || strings.Contains(method, "/") {
		return false
	}
	for _, p := range r.Procedures {
		if p == procedure || p == service+"/*" {
			return true
		}
	}
	return false
}
