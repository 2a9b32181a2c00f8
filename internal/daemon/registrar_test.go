package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
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
	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
)

// TestAControlThatStandsByRegistersAtTheLeaderOnBehalfOfWhoAsks: the lease is
// his at either of them, and he may register nobody else by neither.
func TestAControlThatStandsByRegistersAtTheLeaderOnBehalfOfWhoAsks(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	plane := cli.Plane{Store: server.URL, Authority: folder(t), Bucket: folder(t)}
	dataA, dataB := folder(t), folder(t)
	a := run(t, controlOn(plane), dataA)
	leader := a.waitFor(controlLine)[1]
	b := run(t, controlOn(plane), dataB)
	standby := b.waitFor(controlLine)[1]
	b.waitFor("this control stands by: \\S+ leads, at " + leader)

	f, err := credential.Open(callerAt(t, dataB, "batch"))
	if err != nil {
		t.Fatal(err)
	}
	dial := func(address string) fairleadv1.RegistryServiceClient {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(f.TLS())))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return fairleadv1.NewRegistryServiceClient(conn)
	}
	atLeader, atStandby := dial(leader), dial(standby)
	var shown atomic.Value
	instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, shown.Load().(string)) }))
	defer instance.Close()
	m := &fairleadv1.RegisterRequest{Service: "batch", Address: strings.TrimPrefix(instance.URL, "http://"), Zone: "z"}
	var asked *fairleadv1.RegisterResponse
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // until the leader observes
		if asked, err = atStandby.Register(t.Context(), m); !errors.Is(fault.FromGRPC(err), fault.Unavailable) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	shown.Store(asked.GetContent())
	m.Challenge = asked.GetChallenge()
	entered, err := atStandby.Register(t.Context(), m)
	if err != nil || entered.GetInstance() == "" {
		t.Fatalf("registered %v, %v", entered, err)
	}
	for where, at := range map[string]fairleadv1.RegistryServiceClient{"the leader": atLeader, "the standby": atStandby} {
		if _, err := at.RenewLease(t.Context(), &fairleadv1.RenewLeaseRequest{Instance: entered.GetInstance()}); err != nil {
			t.Errorf("at %s it is not renewed: %v", where, err)
		}
	}
	for where, at := range map[string]fairleadv1.RegistryServiceClient{"the leader": atLeader, "the standby": atStandby} {
		if _, err := at.Register(t.Context(), &fairleadv1.RegisterRequest{Service: "no name", Address: m.GetAddress()}); !errors.Is(fault.FromGRPC(err), fault.Invalid) {
			t.Errorf("at %s what cannot be a name: %v", where, err)
		}
	}
	// What is leased has no document, and is known at the standby all the same.
	operator := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dataB, cli.SocketName))
	}}}
	t.Cleanup(operator.CloseIdleConnections)
	api := fairleadv1connect.NewServiceAPIServiceClient(operator, "http://local")
	if _, err := api.GetContract(t.Context(), connect.NewRequest(&fairleadv1.GetContractRequest{Service: "batch"})); err != nil {
		t.Errorf("its contract at the standby: %v", err)
	}
	_, err = atStandby.Register(t.Context(), &fairleadv1.RegisterRequest{Service: "payments", Address: m.GetAddress()})
	if !errors.Is(fault.FromGRPC(err), fault.Forbidden) || !strings.Contains(err.Error(), "caller/batch may register instances of service batch only") {
		t.Errorf("for its neighbour: %v", err)
	}

	// By Connect too, where a name that it gives itself is not believed.
	transport := &http.Transport{TLSClientConfig: f.TLS("control")}
	t.Cleanup(transport.CloseIdleConnections)
	byConnect := fairleadv1connect.NewRegistryServiceClient(&http.Client{Transport: transport}, "https://"+standby)
	req := connect.NewRequest(&fairleadv1.RegisterRequest{Service: "payments", Address: "127.0.0.1:9"})
	req.Header().Set("Fairlead-On-Behalf", "spiffe://fairlead/caller/payments")
	if _, err := byConnect.Register(t.Context(), req); !errors.Is(fault.FromConnect(err), fault.Forbidden) {
		t.Errorf("in another's name: %v", err)
	}
	if _, err := byConnect.Deregister(t.Context(), connect.NewRequest(&fairleadv1.DeregisterRequest{Instance: entered.GetInstance()})); err != nil {
		t.Errorf("at the standby it is not deregistered: %v", err)
	}
}
