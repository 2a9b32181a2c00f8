package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/resolver"
)

// shortLived is a folder with a caller's identity that has ended, of the
// authority that control will have.
func shortLived(t *testing.T, data, name string) string {
	t.Helper()
	a, err := identity.OpenAuthority(filepath.Join(data, dirAuthority), identity.AuthorityOptions{Lifetime: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	key, err := credential.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.Request()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Sign(csr, identity.ID{TrustDomain: a.TrustDomain(), Role: identity.Caller, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "expired")
	if err := (credential.Files{Key: key.PEM, Cert: cert, Bundle: a.Bundle()}).Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestAnIdentityThatExpiredDuringAnOutageRenewsItselfAndNothingElse, and its
// holder routes on meanwhile.
func TestAnIdentityThatExpiredDuringAnOutageRenewsItselfAndNothingElse(t *testing.T) {
	data, state := folder(t), t.TempDir()
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	expired := shortLived(t, data, "batch")
	control, api := startControl(t, data, anyPort)
	if code, _, errs := fairlead(t, data, "external", "set", "pay", "--endpoint", "127.0.0.1:9,z"); code != 0 {
		t.Fatal(errs)
	}
	cfg := resolver.Config{StateDir: state, Services: []string{"pay"}, Plane: []string{api}, Identity: callerAt(t, data, "batch"), FirstView: -1}
	first, err := resolver.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = errors.Join(first.Await(ctx, "pay"), until(ctx, func() bool { return len(first.OnDisk()) == 1 }), first.Close())
	if err != nil {
		t.Fatal(err)
	}

	// Nothing else: asked for a view it is refused.
	f, err := credential.Open(expired)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(api, grpc.WithTransportCredentials(credentials.NewTLS(f.TLS())))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fairleadv1.NewResolveServiceClient(conn).Resolve(ctx, &fairleadv1.ResolveRequest{Service: "pay"})
	if err := fault.FromGRPC(err); !errors.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("an expired identity asks: %v", err)
	}

	// While control is away it routes on by what it holds.
	if err := control.stop(); err != nil {
		t.Fatal(err)
	}
	cfg.Identity = expired
	r, err := resolver.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Pick("pay"); err != nil || r.Status().Connected || time.Now().Before(f.NotAfter()) {
		t.Errorf("in the outage: %v, connected %v, until %s", err, r.Status().Connected, f.NotAfter())
	}
	// And when control is back, it renews itself, and is heard again.
	startControl(t, data, api)
	if err := until(ctx, func() bool { return r.Status().Connected }); err != nil || time.Now().After(f.NotAfter()) {
		t.Errorf("after the outage: %v, until %s; %v", err, f.NotAfter(), r.Status().Notes)
	}
}

func agentOf(o cli.AgentOptions) func(context.Context, cli.Process) error {
	return func(ctx context.Context, p cli.Process) error {
		o.Process, o.Ops = p, anyPort
		return Roles{}.Agent(ctx, o)
	}
}

// TestAnAgentJoinsByTokenAndIsAskedOnItsSocketAndItsPort.
func TestAnAgentJoinsByTokenAndIsAskedOnItsSocketAndItsPort(t *testing.T) {
	data := folder(t)
	_, api := startControl(t, data, anyPort)
	if code, _, errs := fairlead(t, data, "external", "set", "pay", "--endpoint", "127.0.0.1:9,z"); code != 0 {
		t.Fatal(errs)
	}
	tokens, socket := filepath.Join(t.TempDir(), "tokens"), filepath.Join(filepath.Dir(data), "a.sock")
	if err := os.WriteFile(tokens, []byte("# workload and token\nweb token-of-the-web-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := cli.AgentOptions{
		Joining: cli.Joining{Name: "m1", Control: []string{api}, Token: token(t, data, "agent")}, Socket: socket, Listen: anyPort, Tokens: tokens,
	}
	a := run(t, agentOf(o), data)
	port := a.waitFor(`agent is up: m1 on \S+ and http://([0-9.:]+)/`)[1]
	code, out, errs := 0, "", ""
	if err := until(t.Context(), func() bool {
		code, out, errs = fairlead(t, data, "resolve", "pay", "--agent", socket, "--wait", "1s")
		return code == 0
	}); err != nil || !strings.Contains(out, "127.0.0.1:9") || !strings.Contains(out, "from stream") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+port+"/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer token-of-the-web-1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var m struct{ Workload, Identity string }
	if err := errors.Join(err, json.Unmarshal(body, &m)); err != nil || m.Workload != "web" || m.Identity != "spiffe://fairlead/agent/m1" {
		t.Errorf("its status is %s, %v", body, err)
	}
	// By gRPC, without TLS, on the socket.
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return cli.DialSocket(ctx, socket) }
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	picked, err := fairleadv1.NewAgentServiceClient(conn).Pick(t.Context(), &fairleadv1.PickRequest{Service: "pay"})
	if err != nil || picked.GetEndpoint().GetAddress() != "127.0.0.1:9" {
		t.Errorf("by gRPC it picks %v, %v", picked, err)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
}

func TestAnAgentIsRefusedWhatCannotBeBeforeAnythingIsMade(t *testing.T) {
	data, loose := folder(t), filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(loose, []byte("web token-of-the-web-1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(short, []byte("web short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "a.sock")
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	live, err := net.Listen("unix", filepath.Join(t.TempDir(), "live.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	for says, o := range map[string]cli.AgentOptions{
		"others may read it":            {Joining: cli.Joining{Name: "m1", Control: []string{"127.0.0.1:1"}}, Socket: socket, Tokens: loose},
		"of 16 characters or more":      {Joining: cli.Joining{Name: "m1", Control: []string{"127.0.0.1:1"}}, Socket: socket, Tokens: short},
		"no identity is there":          {Joining: cli.Joining{Control: []string{"127.0.0.1:1"}}, Socket: socket, Identity: t.TempDir()},
		"is not 1 to 128 letters":       {Joining: cli.Joining{Control: []string{"127.0.0.1:1"}}, Socket: socket},
		"no token to join by":           {Joining: cli.Joining{Name: "m1", Control: []string{"127.0.0.1:1"}}, Socket: socket, Listen: anyPort},
		"something else is there":       {Joining: cli.Joining{Name: "m1", Control: []string{"127.0.0.1:1"}}, Socket: precious, Listen: anyPort},
		"another process listens there": {Joining: cli.Joining{Name: "m1", Control: []string{"127.0.0.1:1"}}, Socket: live.Addr().String(), Listen: anyPort},
	} {
		mustSay(t, run(t, agentOf(o), data).end(), says)
	}
	if read(t, precious) != "x" {
		t.Error("a file that is no socket was replaced")
	}
}
