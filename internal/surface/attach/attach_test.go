package attach_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/surface/attach"
	"github.com/fairlead-platform/fairlead/view"
)

// dial attaches by hand: a host of which the test is the other half.
func (p *plane) dial(t *testing.T, identity, name string) (pb.HostControlService_AttachClient, *pb.AttachResponse, error) {
	t.Helper()
	conn, err := grpc.NewClient(p.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(named(identity)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); conn.Close() })
	st, err := pb.NewHostControlServiceClient(conn).Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&pb.AttachRequest{Message: &pb.AttachRequest_Hello{Hello: &pb.HostHello{Name: name}}}); err != nil {
		t.Fatal(err)
	}
	m, err := st.Recv()
	return st, m, err
}

func TestAHostCannotAttachUnderAnothersName(t *testing.T) {
	p := newPlane(t, nil)
	if _, _, err := p.dial(t, "alpha", "beta"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("attached: %v", err)
	}
	if len(p.States()) != 0 {
		t.Errorf("known: %+v", p.States())
	}
}

func TestARefusedHostIsToldWhy(t *testing.T) {
	p := newPlane(t, nil)
	p.admit = func(service.Host, view.Epoch) (view.Epoch, error) { return view.Epoch{}, errors.New("another leads") }
	_, m, err := p.dial(t, "alpha", "alpha")
	if err != nil || m.GetRefusal().GetReason() != "another leads" {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestAnUnansweredCommandIsNotTakenForDoneNorForRefused(t *testing.T) {
	p := newPlane(t, nil)
	if _, m, err := p.dial(t, "alpha", "alpha"); err != nil || m.GetWelcome() == nil {
		t.Fatalf("got %v, %v", m, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.Stop(ctx, epoch, "alpha", service.Stop{Slot: "x-00001.0"})
	if !errors.Is(err, attach.ErrUnsure) || !errors.Is(err, fault.Unknown) || !strings.Contains(err.Error(), `cannot say whether host "alpha" did it`) {
		t.Errorf("got %v", err)
	}
	if err := p.Stop(t.Context(), epoch, "beta", service.Stop{}); !errors.Is(err, attach.ErrAbsent) || !errors.Is(err, fault.Unavailable) {
		t.Errorf("a command to nobody: %v", err)
	}
}

func TestASilentHostStaysConnectedAndItsSilenceGrows(t *testing.T) {
	p := newPlane(t, nil)
	p.dial(t, "alpha", "alpha")
	st := p.await(t, "a second of silence", func(st service.HostState) bool { return st.Silent > time.Second })
	if !st.Connected || st.Reported {
		t.Errorf("have %+v", st)
	}
}

func TestALaterStreamOfAHostTakesThePlaceOfTheEarlier(t *testing.T) {
	p := newPlane(t, nil)
	first, _, _ := p.dial(t, "alpha", "alpha")
	p.dial(t, "alpha", "alpha")
	for {
		m, err := first.Recv()
		if err != nil || m.GetRefusal() != nil {
			break
		}
	}
	if st := p.States(); len(st) != 1 || !st[0].Connected {
		t.Errorf("have %+v", st)
	}
}

func TestADeposedLeaderLetsEveryHostGo(t *testing.T) {
	p := newPlane(t, nil)
	p.start(t, "alpha")
	p.Depose("another leads")
	if len(p.States()) != 0 {
		t.Errorf("known: %+v", p.States())
	}
	p.Lead()
	p.await(t, "the host again", func(st service.HostState) bool { return st.Connected && st.Reported })
}

func TestAHostAdmittedWhileTheLeaderIsDeposedIsNotAttached(t *testing.T) {
	p := newPlane(t, nil)
	p.admit = func(service.Host, view.Epoch) (view.Epoch, error) {
		p.Depose("another leads")
		p.Lead()
		return epoch, nil
	}
	st, m, err := p.dial(t, "alpha", "alpha")
	if err != nil || m.GetWelcome() == nil {
		t.Fatalf("got %v, %v", m, err)
	}
	if m, err = st.Recv(); err != nil || m.GetRefusal() == nil {
		t.Errorf("got %v, %v", m, err)
	}
	if known := p.States(); len(known) != 0 {
		t.Errorf("known: %+v", known)
	}
}

func TestWhoFollowsOutputIsToldThatTheLeaderIsDeposed(t *testing.T) {
	p := newPlane(t, nil)
	p.start(t, "alpha")
	ended := make(chan error, 1)
	go func() {
		ended <- p.StreamLogs(t.Context(), service.LogQuery{Service: "hello", Follow: true}, func([]service.LogLine) error { return nil })
	}()
	for { // until the order is known, nobody can be told
		p.Depose("another leads")
		select {
		case err := <-ended:
			if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "another leads") {
				t.Errorf("got %v", err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *plane) run(t *testing.T, tmpl service.Template) service.Instance {
	t.Helper()
	a := service.Assignment{Slot: "hello-00001.0", Service: "hello", Revision: "hello-00001", Group: "hello-00001", Template: tmpl}
	if err := p.Assign(t.Context(), epoch, "alpha", a); err != nil {
		t.Fatal(err)
	}
	st := p.await(t, "live instance", func(st service.HostState) bool {
		return len(st.Instances) == 1 && st.Instances[0].State == service.InstanceLive
	})
	return st.Instances[0]
}

func TestOutputIsFollowedAcrossARestartOfTheHost(t *testing.T) {
	p := newPlane(t, nil)
	p.start(t, "alpha")
	in := p.run(t, hosttest.TemplateOf(hosttest.Prints))
	ask := func(path string) {
		t.Helper()
		resp, err := http.Get("http://" + in.Address + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	ask("/before")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := make(chan service.LogLine, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- p.StreamLogs(ctx, service.LogQuery{Service: "hello", Follow: true}, func(l []service.LogLine) error {
			for _, one := range l {
				lines <- one
			}
			return nil
		})
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case l := <-lines:
			if l.Text != want || l.Instance != in.ID || l.Revision != "hello-00001" {
				t.Fatalf("got %+v, want %q", l, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("no line %q", want)
		}
	}
	expect("request /before")
	ask("/during")
	expect("request /during")
	p.crash(t, "alpha")
	p.start(t, "alpha")
	// The restarted host begins at the end once it has the order: ask until it has.
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for ctx.Err() == nil {
			if resp, err := http.Get("http://" + in.Address + "/after"); err == nil {
				resp.Body.Close()
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	expect("request /after")
	cancel()
	<-stop
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestATailEndsByItself(t *testing.T) {
	p := newPlane(t, nil)
	p.start(t, "alpha")
	in := p.run(t, hosttest.TemplateOf(hosttest.Prints))
	for i := range 5 {
		resp, err := http.Get(fmt.Sprintf("http://%s/%d", in.Address, i))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	var got []string
	err := p.StreamLogs(t.Context(), service.LogQuery{Service: "hello", Tail: 2}, func(l []service.LogLine) error {
		for _, one := range l {
			got = append(got, one.Text)
		}
		return nil
	})
	if err != nil || strings.Join(got, ",") != "request /3,request /4" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAnArtifactIsFetchedFromTheLeaderAndRun(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	p := newPlane(t, map[string][]byte{digest: bytes.Clone(program)})
	p.start(t, "alpha")
	tmpl := hosttest.TemplateOf(hosttest.Serves)
	tmpl.Command[0], tmpl.Artifact = "./bin/hello", digest
	if err := p.Prepare(t.Context(), epoch, "alpha", "hello-00001", tmpl); err != nil {
		t.Fatal(err)
	}
	in := p.run(t, tmpl)
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", in.Pid))
	if err != nil || !strings.Contains(exe, "artifacts") {
		t.Errorf("it runs %s, %v", exe, err)
	}
	tmpl.Artifact = "sha256:" + strings.Repeat("0", 64)
	if err := p.Prepare(t.Context(), epoch, "alpha", "hello-00002", tmpl); err == nil || !errors.Is(err, attach.ErrRefused) {
		t.Errorf("a missing artifact: %v", err)
	}
}
