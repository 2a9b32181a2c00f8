package grpcresolver_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/resolver/grpcresolver"
	"github.com/fairlead-platform/fairlead/resolver/resolvertest"
)

// trust signs for the instances of a test and their caller.
type trust struct {
	t *testing.T
	a *identity.Authority
}

func newTrust(t *testing.T) *trust {
	t.Helper()
	a, err := identity.OpenAuthority(t.TempDir(), identity.AuthorityOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return &trust{t, a}
}

func (x *trust) of(role identity.Role, name string) *identity.Keystore {
	x.t.Helper()
	k, err := identity.OpenKeystore(x.t.TempDir())
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.a.Issue(k, identity.ID{TrustDomain: x.a.TrustDomain(), Role: role, Name: name}); err != nil {
		x.t.Fatal(err)
	}
	return k
}

// instance of a service at its own address, by TLS.
func (x *trust) instance(id, service string) *instance {
	x.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.t.Fatal(err)
	}
	creds := x.of(identity.Service, service).RoleCredentials(identity.ServerOptions{})
	i := &instance{id: id, server: grpc.NewServer(grpc.Creds(creds)), done: make(chan struct{}), at: resolvertest.Endpoint(id, l.Addr().String())}
	grpc_health_v1.RegisterHealthServer(i.server, i)
	go func() {
		defer close(i.done)
		_ = i.server.Serve(l) // it ends by stop
	}()
	x.t.Cleanup(i.stop)
	return i
}

func TestAPortReusedByAnotherServiceIsStaleAndNobodyIsCharged(t *testing.T) {
	x, w := newTrust(t), newWorld(t)
	creds := credentials.NewTLS(x.of(identity.Caller, "test").ClientTLS(identity.Service))
	conn, err := grpc.NewClient("fairlead:///payments", grpcresolver.Option(w.r), grpc.WithTransportCredentials(grpcresolver.Credentials(creds)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	mine, theirs := x.instance("i1", "payments"), x.instance("i2", "another")
	w.publish(mine, theirs)
	client := grpc_health_v1.NewHealthClient(conn)
	const n = 100
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if theirs.calls.Load() != 0 {
		t.Errorf("another service got %d calls", theirs.calls.Load())
	}
	w.reported(map[string]string{"i1": fmt.Sprintf("%d/0/0", n)})
}
