package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

// procedures is every procedure of the wire contract, by service.
// :: service name → full method names
func procedures() map[string][]string {
	out := map[string][]string{}
	for _, f := range []protoreflect.FileDescriptor{
		fairleadv1.File_fairlead_v1_evidence_proto, fairleadv1.File_fairlead_v1_host_proto, fairleadv1.File_fairlead_v1_identity_proto,
		fairleadv1.File_fairlead_v1_operator_proto, fairleadv1.File_fairlead_v1_poll_proto,
		fairleadv1.File_fairlead_v1_view_proto, fairleadv1.File_fairlead_v1_discovery_proto, fairleadv1.File_fairlead_v1_registry_proto, fairleadv1.File_fairlead_v1_resolve_proto,
	} {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				name := string(s.FullName())
				out[name] = append(out[name], name+"/"+string(s.Methods().Get(j).Name()))
			}
		}
	}
	return out
}

// allowed is the table of access as a reader would write it down.
// :: socket, who → services or procedures
var allowed = map[Socket]map[Who]string{
	SocketControl: {
		Nobody:        "IdentityService/Join",
		Expired:       "IdentityService/Renew",
		Who(Control):  "",
		Who(Relay):    "SubscriptionService EvidenceService/ReportOutcomes EvidenceService/ReportMerged IdentityService/FollowRefusals IdentityService/Renew",
		Who(Prober):   "ProbeService IdentityService/Renew",
		Who(Agent):    "SubscriptionService EvidenceService/ReportOutcomes ResolveService IdentityService/Renew",
		Who(Caller):   "SubscriptionService EvidenceService/ReportOutcomes ResolveService RegistryService IdentityService/Renew",
		Who(Service):  "SubscriptionService EvidenceService/ReportOutcomes ResolveService RegistryService IdentityService/Renew",
		Who(Gateway):  "ViewService SubscriptionService EvidenceService/ReportOutcomes IdentityService/Renew",
		Who(Host):     "HostControlService IdentityService/IssueService IdentityService/Renew",
		Who(Operator): "ServiceAPIService AdminAPIService DiscoveryAPIService RegistryService ResolveService IdentityService/IssueCaller IdentityService/RevokeIdentity IdentityService/ListIdentities IdentityService/Renew",
	},
	SocketGatewayPoll: {
		Nobody: "", Expired: "", Who(Control): "", Who(Relay): "", Who(Prober): "", Who(Agent): "",
		Who(Gateway): "", Who(Operator): "", Who(Host): "PollService", Who(Caller): "", Who(Service): "",
	},
	SocketRelay: {
		Nobody: "", Expired: "", Who(Control): "", Who(Prober): "", Who(Operator): "", Who(Host): "",
		Who(Gateway): "SubscriptionService EvidenceService/ReportOutcomes",
		Who(Relay):   "SubscriptionService EvidenceService/ReportOutcomes",
		Who(Agent):   "SubscriptionService EvidenceService/ReportOutcomes",
		Who(Caller):  "SubscriptionService EvidenceService/ReportOutcomes",
		Who(Service): "SubscriptionService EvidenceService/ReportOutcomes",
	},
}

func isAllowed(socket Socket, who Who, procedure string) bool {
	short := strings.TrimPrefix(procedure, "fairlead.v1.")
	service, _, _ := strings.Cut(short, "/")
	for _, f := range strings.Fields(allowed[socket][who]) {
		if f == short || f == service {
			return true
		}
	}
	return false
}

func peerFor(who Who) Peer {
	switch who {
	case Nobody:
		return Peer{}
	case Expired:
		return Peer{ID: ID{DefaultTrustDomain, Host, "x"}, Expired: true}
	default:
		return Peer{ID: ID{DefaultTrustDomain, Role(who), "x"}}
	}
}

func TestEveryRowOfTheTableIsAllowedAndAllElseRefused(t *testing.T) {
	for socket, rows := range allowed {
		if len(rows) != len(Roles())+2 {
			t.Errorf("the test's table has %d rows for %s", len(rows), socket)
		}
		for who := range rows {
			for _, methods := range procedures() {
				for _, procedure := range methods {
					err := May(socket, "/"+procedure, peerFor(who))
					checkMay(t, err, isAllowed(socket, who, procedure), who, socket, procedure)
				}
			}
		}
	}
}

func checkMay(t *testing.T, err error, allow bool, who Who, socket Socket, procedure string) {
	t.Helper()
	if allow {
		if err != nil {
			t.Errorf("%s on %s calling %s: %v", who, socket, procedure, err)
		}
		return
	}
	var forbidden *ForbiddenError
	if !errors.As(err, &forbidden) || !errors.Is(err, ErrForbidden) {
		t.Errorf("%s on %s calling %s was allowed, or refused oddly: %v", who, socket, procedure, err)
		return
	}
	for _, part := range []string{string(who), string(socket), procedure} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("refusal %q does not name %q", err, part)
		}
	}
}

func TestEveryProcedureOfTheContractCanBeCalledBySomeone(t *testing.T) {
	known := map[string]bool{}
	for service, methods := range procedures() {
		known[service+"/*"] = true
		for _, m := range methods {
			known[m] = true
			var someone bool
			for _, r := range Rules() {
				someone = someone || r.covers(m)
			}
			if !someone {
				t.Errorf("nobody may call %s", m)
			}
		}
	}
	for _, r := range Rules() {
		for _, p := range r.Procedures {
			if !known[p] {
				t.Errorf("rule for %s on %s names %s, which is not in the contract", r.Who, r.Socket, p)
			}
		}
	}
}

func TestAPathThatIsNoProcedureIsRefused(t *testing.T) {
	p := peerFor(Who(Host))
	for _, path := range []string{
		"", "/", "//", "/fairlead.v1.HostControlService", "/fairlead.v1.HostControlService/",
		"/fairlead.v1.HostControlService/a/b", "/fairlead.v1.HostControlService/*/x", "/x/fairlead.v1.HostControlService/Attach",
		"//fairlead.v1.HostControlService/Attach", "/fairlead.v1.hostcontrolservice/Attach", "/HostControlService/Attach",
	} {
		if err := May(SocketControl, path, p); !errors.Is(err, ErrForbidden) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestALocalOperatorIsOneOnTheLocalSocketOnly(t *testing.T) {
	const api, join = "/fairlead.v1.ServiceAPIService/Deploy", "/" + procJoin
	local, remote := LocalOperator("root"), peerFor(Who(Operator))
	if err := May(SocketLocal, api, local); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		socket    Socket
		procedure string
		peer      Peer
	}{{SocketControl, api, local}, {SocketLocal, api, remote}, {SocketLocal, join, local}, {SocketLocal, api, Peer{}}} {
		if err := May(c.socket, c.procedure, c.peer); !errors.Is(err, ErrForbidden) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestTheTableHoldsOverRealTLS calls each procedure as each peer, by grpc-go
// over the one port of control; then once more after the identities have
// expired, on the connections that are open and on new ones.
func TestTheTableHoldsOverRealTLS(t *testing.T) {
	p := startPlane(t, nil)
	creds := map[Who]credentials.TransportCredentials{}
	for _, role := range Roles() {
		creds[Who(role)] = ClientCredentials(newRole(t, p.authority, role, "x", time.Now), Control)
	}
	open := dialAll(t, p, creds)
	for who, conn := range open {
		callAll(t, conn, who)
	}
	nobody := dialGRPC(t, p.addr, credentials.NewTLS(bootstrapTLS(newToken(t, p.authority), time.Now)))
	callAll(t, nobody, Nobody)

	p.serverNow.add(31 * 24 * time.Hour)
	for _, conns := range []map[Who]*grpc.ClientConn{open, dialAll(t, p, creds)} {
		for _, conn := range conns {
			callAll(t, conn, Expired)
		}
	}
	callAll(t, nobody, Nobody)
}

func dialAll(t *testing.T, p *plane, creds map[Who]credentials.TransportCredentials) map[Who]*grpc.ClientConn {
	t.Helper()
	out := map[Who]*grpc.ClientConn{}
	for who, c := range creds {
		out[who] = dialGRPC(t, p.addr, c)
	}
	return out
}

func callAll(t *testing.T, conn *grpc.ClientConn, who Who) {
	t.Helper()
	for _, methods := range procedures() {
		for _, procedure := range methods {
			_, err := callGRPC(t, conn, procedure)
			checkCall(t, err, isAllowed(SocketControl, who, procedure), who, procedure)
		}
	}
}

func newToken(t *testing.T, a *Authority) Token {
	t.Helper()
	token, _, err := MintToken(Host, "", a.Fingerprint(), time.Now(), 0, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return must[Token](t)(ParseToken(token))
}

func checkCall(t *testing.T, err error, allow bool, who Who, procedure string) {
	t.Helper()
	want := fault.Forbidden
	if who == Nobody {
		want = fault.Unauthenticated
	}
	if allow {
		want = ""
	}
	if got := fault.CodeOf(err); got != want {
		t.Errorf("%s calling %s: %v (code %q, want %q)", who, procedure, err, got, want)
	}
}

func TestAGatewaysPollSocketIsForHostsOnly(t *testing.T) {
	a := newAuthority(t, time.Now)
	gateway := newRole(t, a, Gateway, "g", time.Now)
	addr := servePoll(t, gateway, Guard{Socket: SocketGatewayPoll})
	const poll = "fairlead.v1.PollService/Poll"
	for _, role := range Roles() {
		conn := dialGRPC(t, addr, ClientCredentials(newRole(t, a, role, "x", time.Now), Gateway))
		got, err := callGRPC(t, conn, poll)
		switch {
		case role == Host && (err != nil || got != "grpc-go spiffe://fairlead/host/x"):
			t.Errorf("host: %q, %v", got, err)
		case role == Operator && fault.CodeOf(err) != fault.Unavailable: // not even let in
			t.Errorf("operator: %v", err)
		case role != Host && role != Operator && fault.CodeOf(err) != fault.Forbidden:
			t.Errorf("%s: %v", role, err)
		}
	}
	conn := dialGRPC(t, addr, ClientCredentials(newRole(t, a, Host, "x", time.Now), Control))
	if _, err := callGRPC(t, conn, poll); err == nil || !strings.Contains(err.Error(), "dialled a control and reached spiffe://fairlead/gateway/g") {
		t.Errorf("a gateway passed for control: %v", err)
	}
}

// servePoll serves every procedure by grpc-go on a listener of its own.
func servePoll(t *testing.T, k *Keystore, g Guard) string {
	t.Helper()
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	srv := grpc.NewServer(grpc.Creds(k.RoleCredentials(ServerOptions{Refused: g.Refused})),
		grpc.StreamInterceptor(g.Stream), grpc.UnknownServiceHandler(echoStream))
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func TestAStreamEndsWithTheIdentityThatOpenedIt(t *testing.T) {
	a := newAuthority(t, time.Now)
	host := newRole(t, a, Host, "h", time.Now)
	server := newClock()
	server.add(host.NotAfter().Sub(server.now()) - time.Second)
	gateway := newRole(t, a, Gateway, "g", time.Now)
	gateway.now = server.now
	addr := servePoll(t, gateway, Guard{Socket: SocketGatewayPoll, Now: server.now})
	conn := dialGRPC(t, addr, ClientCredentials(host, Gateway))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream := must[grpc.ClientStream](t)(conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/fairlead.v1.PollService/Poll"))
	if err := stream.RecvMsg(new(wrapperspb.StringValue)); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("the stream ended by %v, not by its connection's end", err)
	}
}

func TestARefusalSpeaksTheProtocolOfTheRequest(t *testing.T) {
	p := startPlane(t, nil)
	tok := newToken(t, p.authority)
	for name, opts := range map[string][]connect.ClientOption{
		"connect": nil, "connect JSON": {connect.WithProtoJSON()}, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		_, err := callConnect(t, httpClient(t, bootstrapTLS(tok, time.Now), true), p.addr, "fairlead.v1.ServiceAPIService/Deploy", opts...)
		if got := fault.FromConnect(err); !errors.Is(got, fault.Unauthenticated) || fault.HintOf(got) == "" {
			t.Errorf("%s: %v, hint %q", name, got, fault.HintOf(got))
		}
	}
}
