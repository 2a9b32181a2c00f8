package daemon

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

// callerAt makes the identity of a caller, as an operator does.
func callerAt(t *testing.T, data, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if code, _, errs := fairlead(t, data, "identity", "caller", name, "--out", dir); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	return dir
}

func TestACallersFolderIsRenewedByItselfAtControl(t *testing.T) {
	data := folder(t)
	_, api := startControl(t, data, anyPort)
	dir := callerAt(t, data, "batch")
	key, before := read(t, dir, "key.pem"), read(t, dir, "cert.pem")
	code, out, errs := fairlead(t, t.TempDir(), "--api", api, "identity", "renew", dir)
	if code != 0 || !strings.Contains(out, "spiffe://fairlead/caller/batch") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if read(t, dir, "cert.pem") == before || read(t, dir, "key.pem") != key {
		t.Error("a renewal replaces the certificate, and leaves the key")
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestAWorkloadMayNotRegisterForItsNeighbour by each protocol that reaches the
// registry with an identity of its own.
func TestAWorkloadMayNotRegisterForItsNeighbour(t *testing.T) {
	data := folder(t)
	_, api := startControl(t, data, anyPort)
	f, err := credential.Open(callerAt(t, data, "batch"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: f.TLS("control")}
	t.Cleanup(transport.CloseIdleConnections)
	byConnect := fairleadv1connect.NewRegistryServiceClient(&http.Client{Transport: transport}, "https://"+api)
	conn, err := grpc.NewClient(api, grpc.WithTransportCredentials(credentials.NewTLS(f.TLS())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	byGRPC := fairleadv1.NewRegistryServiceClient(conn)
	for protocol, register := range map[string]func(*fairleadv1.RegisterRequest) (*fairleadv1.RegisterResponse, error){
		"connect": func(m *fairleadv1.RegisterRequest) (*fairleadv1.RegisterResponse, error) {
			resp, err := byConnect.Register(t.Context(), connect.NewRequest(m))
			if err != nil {
				return nil, fault.FromConnect(err)
			}
			return resp.Msg, nil
		},
		"gRPC": func(m *fairleadv1.RegisterRequest) (*fairleadv1.RegisterResponse, error) {
			resp, err := byGRPC.Register(t.Context(), m)
			return resp, fault.FromGRPC(err)
		},
	} {
		resp, err := observed(t, register, "batch")
		if err != nil || resp.GetChallenge() == "" {
			t.Errorf("%s: for itself: %v, %v", protocol, resp, err)
		}
		if _, err := observed(t, register, "payments"); !errors.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "may register instances of service batch only") {
			t.Errorf("%s: for its neighbour: %v", protocol, err)
		}
	}
}

// observed asks until the control has begun to observe.
func observed(t *testing.T, register func(*fairleadv1.RegisterRequest) (*fairleadv1.RegisterResponse, error), service string) (resp *fairleadv1.RegisterResponse, err error) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if resp, err = register(&fairleadv1.RegisterRequest{Service: service, Address: "127.0.0.1:9"}); !errors.Is(err, fault.Unavailable) {
			break
		}
		time.Sleep(20 * time.Millisecond) // there is no signal of it
	}
	return resp, err
}

// TestAnInstanceFindsItsServicesIdentityInItsEnvironment, which its host renews.
func TestAnInstanceFindsItsServicesIdentityInItsEnvironment(t *testing.T) {
	data := folder(t)
	r := run(t, up(func(o *cli.UpOptions) { o.Zones = []string{"north"} }), data)
	api := r.waitFor(`fairlead is up: .*API ([0-9.:]+)`)[1]
	script := `env | grep ^FAIRLEAD_ >$HOME/env; mv $HOME/env $HOME/told; exec python3 -m http.server "$PORT"`
	if code, out, errs := fairlead(t, data, "deploy", "web", "--", "sh", "-c", script); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	found, err := filepath.Glob(filepath.Join(data, "host", "host-north", "work", "*", "dir", "told"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	env := map[string]string{}
	for _, line := range strings.Split(read(t, found[0]), "\n") {
		k, v, _ := strings.Cut(line, "=")
		env[k] = v
	}
	if env["FAIRLEAD_PLANE"] != api || env["FAIRLEAD_ZONE"] != "north" || env["FAIRLEAD_INSTANCE"] == "" {
		t.Errorf("it is told %v", env)
	}
	f, err := credential.Open(env["FAIRLEAD_IDENTITY"])
	if err != nil || f.ID() != "spiffe://fairlead/service/web" || !f.Managed() {
		t.Fatalf("in %s is %q, managed %v: %v", env["FAIRLEAD_IDENTITY"], f.ID(), f.Managed(), err)
	}
}
