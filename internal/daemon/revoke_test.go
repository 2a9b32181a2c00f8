package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/store/postgres/postgrestest"
	"github.com/fairlead-platform/fairlead/resolver"
)

func relayOf(j cli.Joining, listen string) func(context.Context, cli.Process) error {
	return func(ctx context.Context, p cli.Process) error {
		return Roles{}.Relay(ctx, cli.RelayOptions{Process: p, Joining: j, Listen: listen, Ops: anyPort})
	}
}

// TestARevokedIdentityIsRefusedEverywhereAndItsStreamsEnd, at control and at a
// relay, within seconds, and by each after it was started anew.
func TestARevokedIdentityIsRefusedEverywhereAndItsStreamsEnd(t *testing.T) {
	data, relayData := folder(t), folder(t)
	control, api := startControl(t, data, anyPort)
	joining := cli.Joining{Name: "r1", Control: []string{api}, Token: token(t, data, "relay")}
	relay := run(t, relayOf(joining, anyPort), relayData)
	atRelay := relay.waitFor(`subscribers ([0-9.:]+)`)[1]
	if code, _, errs := fairlead(t, data, "external", "set", "pay", "--endpoint", "127.0.0.1:9,z"); code != 0 {
		t.Fatal(errs)
	}
	says(t, data, "127.0.0.1:9", "resolve", "pay")
	dir, other := callerAt(t, data, "batch"), callerAt(t, data, "other")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	shows := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := fairlead(t, t.TempDir(), append(args, "identity", "show", dir)...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("it is shown as, exit %d:\n%s%s", code, out, errs)
		}
	}
	shows("revoked  no, says control at "+api, "--api", api)
	shows("revoked  not known, since control was not asked", "--api", closedPort(t))
	at := map[string]*resolver.Resolver{} // :: where it subscribes → by the identity that is to be revoked
	for _, plane := range []string{api, atRelay} {
		r, err := resolver.Open(ctx, resolver.Config{StateDir: t.TempDir(), Services: []string{"pay"}, Plane: []string{plane}, Identity: dir, FirstView: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		if err := r.Await(ctx, "pay"); err != nil {
			t.Fatalf("at %s: %v", plane, err)
		}
		at[plane] = r
	}
	if code, out, errs := fairlead(t, data, "identity", "revoke", "batch", "--reason", "its laptop was stolen"); code != 0 || !strings.Contains(out, "spiffe://fairlead/caller/batch is revoked") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for plane, r := range at {
		if err := until(ctx, func() bool { return !r.Status().Connected }); err != nil {
			t.Errorf("its stream at %s goes on", plane)
		}
		if _, err := r.Pick("pay"); err != nil {
			t.Errorf("what it holds it cannot pick by any more: %v", err)
		}
		refuses(t, ctx, plane, dir)
	}
	if err := subscribeOnce(ctx, api, other); err != nil {
		t.Errorf("another caller is refused: %v", err)
	}
	if code, _, errs := fairlead(t, t.TempDir(), "--api", api, "identity", "renew", dir); code == 0 || !strings.Contains(errs, "refused") {
		t.Errorf("its renewal: exit %d: %s", code, errs)
	}
	shows("revoked  by an operator, for good, says control at "+api, "--api", api)
	if code, out, _ := fairlead(t, data, "identity", "list"); code != 0 || !strings.Contains(out, "its laptop was stolen") || !strings.Contains(out, "caller/other") {
		t.Errorf("the list says %s", out)
	}

	stopped(t, control, relay)
	relay = run(t, relayOf(cli.Joining{Name: "r1", Control: []string{api}}, atRelay), relayData) // control is away
	relay.waitFor(`subscribers ([0-9.:]+)`)
	refuses(t, ctx, atRelay, dir)
	if err := subscribeOnce(ctx, atRelay, other); err != nil {
		t.Errorf("another caller is refused by the relay: %v", err)
	}
	startControl(t, data, api)
	refuses(t, ctx, api, dir)
}

// TestARevocationAtOneOfTwoControlsIsInForceAtBothAndOutlivesItsLeader: the two
// share a PostgreSQL, and the one that stands by is asked.
func TestARevocationAtOneOfTwoControlsIsInForceAtBothAndOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	plane := cli.Plane{Store: server.URL, Authority: folder(t), Bucket: folder(t)}
	dataA, dataB := folder(t), folder(t)
	a := run(t, controlOn(plane), dataA)
	atA := a.waitFor(controlLine)[1]
	atB := run(t, controlOn(plane), dataB).waitFor(controlLine)[1]
	stolen, other := callerAt(t, dataA, "stolen"), callerAt(t, dataB, "other")
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	r, err := resolver.Open(ctx, resolver.Config{StateDir: t.TempDir(), Services: []string{"pay"}, Plane: []string{atA, atB}, Identity: stolen, FirstView: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := until(ctx, func() bool { return r.Status().Connected }); err != nil {
		t.Fatal("it never subscribed at the leader")
	}

	if code, out, errs := fairlead(t, dataB, "identity", "revoke", "stolen"); code != 0 {
		t.Fatalf("asked of the standby: exit %d: %s%s", code, out, errs)
	}
	if err := until(ctx, func() bool { return !r.Status().Connected }); err != nil {
		t.Error("its stream at the leader goes on")
	}
	for _, at := range []string{atB, atA} {
		refuses(t, ctx, at, stolen)
		if code, _, errs := fairlead(t, t.TempDir(), "--api", at, "identity", "renew", stolen); code == 0 || !strings.Contains(errs, "refused") {
			t.Errorf("its renewal at %s: exit %d: %s", at, code, errs)
		}
	}
	if code, _, errs := fairlead(t, dataA, "identity", "caller", "stolen", "--out", filepath.Join(t.TempDir(), "x"), "--again"); code == 0 || !strings.Contains(errs, "was revoked") {
		t.Errorf("given anew by the other control: exit %d: %s", code, errs)
	}
	if err := subscribeOnce(ctx, atA, other); err != nil {
		t.Errorf("another caller is refused: %v", err)
	}

	stopped(t, a)
	if err := until(ctx, func() bool { return subscribeOnce(ctx, atB, other) == nil }); err != nil {
		t.Error("the other control never serves another caller")
	}
	refuses(t, ctx, atB, stolen)
	anew := run(t, controlOn(plane), dataA).waitFor(controlLine)[1]
	refuses(t, ctx, anew, stolen)
}

func stopped(t *testing.T, roles ...*role) {
	t.Helper()
	for _, r := range roles {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}

// refuses waits until a subscription is answered that the identity is refused.
func refuses(t *testing.T, ctx context.Context, address, identity string) {
	t.Helper()
	var err error
	if until(ctx, func() bool {
		err = subscribeOnce(ctx, address, identity)
		return errors.Is(err, fault.Forbidden)
	}) != nil || !strings.Contains(err.Error(), "identity is refused") {
		t.Errorf("at %s it is answered %v", address, err)
	}
}

// subscribeOnce subscribes at an address; nil is a welcome.
func subscribeOnce(ctx context.Context, address, identity string) error {
	f, err := credential.Open(identity)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(f.TLS())))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := fairleadv1.NewSubscriptionServiceClient(conn).Subscribe(ctx)
	if err != nil {
		return fault.FromGRPC(err)
	}
	hello := &fairleadv1.SubscribeHello{Name: filepath.Base(identity), Session: newID(), HoldsNothing: true, RelaysFailed: true}
	if err := stream.Send(&fairleadv1.SubscribeRequest{Message: &fairleadv1.SubscribeRequest_Hello{Hello: hello}}); err != nil {
		return fault.FromGRPC(err)
	}
	_, err = stream.Recv()
	return fault.FromGRPC(err)
}

// TestANameIsGivenOnceUnlessItIsAskedForAgain, and never again once it was revoked.
func TestANameIsGivenOnceUnlessItIsAskedForAgain(t *testing.T) {
	data := folder(t)
	startControl(t, data, anyPort)
	callerAt(t, data, "batch")
	give := func(more ...string) (int, string) {
		code, _, errs := fairlead(t, data, append([]string{"identity", "caller", "batch", "--out", filepath.Join(t.TempDir(), "x")}, more...)...)
		return code, errs
	}
	if code, errs := give(); code == 0 || !strings.Contains(errs, "was given already") || !strings.Contains(errs, "--again") || !strings.Contains(errs, "identity renew") {
		t.Errorf("given twice: exit %d: %s", code, errs)
	}
	if code, errs := give("--again"); code != 0 {
		t.Errorf("asked for again: exit %d: %s", code, errs)
	}
	if code, _, errs := fairlead(t, data, "identity", "revoke", "host/h1"); code == 0 || !strings.Contains(errs, "fairlead hosts retire h1") {
		t.Errorf("a host's: exit %d: %s", code, errs)
	}
	for range 2 { // once more changes nothing
		if code, _, errs := fairlead(t, data, "identity", "revoke", "batch"); code != 0 {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
	if code, errs := give("--again"); code == 0 || !strings.Contains(errs, "was revoked") || !strings.Contains(errs, "another name") {
		t.Errorf("given after it was revoked: exit %d: %s", code, errs)
	}
}
