package host_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/host"
	"github.com/fairlead-platform/fairlead/internal/hosttest"
	"github.com/fairlead-platform/fairlead/internal/identity"
)

// issuer is control, as far as identities go.
type issuer struct {
	mu        sync.Mutex
	authority *identity.Authority
	away      bool
	asked     int
}

func (i *issuer) issue(_ context.Context, service string, csr []byte) (cert, bundle []byte, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	if i.away {
		return nil, nil, errors.New("control is away")
	}
	cert, err = i.authority.Sign(csr, identity.ID{TrustDomain: i.authority.TrustDomain(), Role: identity.Service, Name: service}, identity.HeldBy("alpha"))
	return cert, i.authority.Bundle(), err
}

func (i *issuer) set(away bool, a *identity.Authority) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away, i.authority = away, a
}

func (i *issuer) bundle() ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.authority.Bundle(), nil
}

func newAuthority(t *testing.T, life time.Duration) *identity.Authority {
	t.Helper()
	a, err := identity.OpenAuthority(filepath.Join(t.TempDir(), "authority"), identity.AuthorityOptions{Lifetime: life})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// lentTo is the identity that an instance finds in its environment.
func (r *room) lentTo(t *testing.T, in *pb.InstanceReport) *credential.Folder {
	t.Helper()
	for _, line := range strings.Split(get(t, in.GetAddress(), "/"), "\n") {
		if dir, ok := strings.CutPrefix(line, "FAIRLEAD_IDENTITY="); ok {
			f, err := credential.Open(dir)
			if err != nil && !errors.Is(err, credential.ErrNone) {
				t.Fatal(err)
			}
			return f
		}
	}
	t.Fatal("it is told of no folder")
	return nil
}

func TestInstancesRunWithoutAnIdentityUntilOneIsIssuedAndHaveItFromTheHostsDiskAfterwards(t *testing.T) {
	control := &issuer{away: true, authority: newAuthority(t, 0)}
	r := startIn(t, filepath.Join(t.TempDir(), "host"), func(c *host.Config) {
		c.Identities = host.Issuing{Issue: control.issue, Bundle: control.bundle}
		c.Plane, c.Zone, c.Timing.Identities = []string{"a:1", "b:2"}, "north", 10*time.Millisecond
	})
	r.assign(t, hosttest.TemplateOf(hosttest.Env))
	in := r.awaitLive(t)
	if env := get(t, in.GetAddress(), "/"); !strings.Contains(env, "FAIRLEAD_PLANE=a:1,b:2\n") || !strings.Contains(env, "FAIRLEAD_ZONE=north\n") {
		t.Errorf("its environment is %s", env)
	}
	f := r.lentTo(t, in)
	if f.ID() != "" {
		t.Fatalf("while control is away it has %s", f.ID())
	}
	control.set(false, control.authority)
	until(t, "it is given one", func() bool { return f.ID() == "spiffe://fairlead/service/hello" })
	if !f.Managed() {
		t.Error("the host does not say that it renews it")
	}

	// A process that starts while control is away has it at once.
	control.set(true, control.authority)
	if err := syscall.Kill(int(in.GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := r.await(t, "the next process", func(x *pb.InstanceReport) bool { return x.GetState() == "live" && x.GetId() != in.GetId() })
	if f := r.lentTo(t, next); f.ID() != "spiffe://fairlead/service/hello" {
		t.Errorf("the process after it has %q", f.ID())
	}
}

func TestAHostReplacesWhatIsDueOrOfAnotherAuthorityInEveryInstance(t *testing.T) {
	control := &issuer{authority: newAuthority(t, 3*time.Minute)} // due from the start: a certificate begins five minutes early
	r := startIn(t, filepath.Join(t.TempDir(), "host"), func(c *host.Config) {
		c.Identities = host.Issuing{Issue: control.issue, Bundle: control.bundle}
		c.Timing.Identities = 10 * time.Millisecond
	})
	r.assign(t, hosttest.TemplateOf(hosttest.Env))
	f := r.lentTo(t, r.awaitLive(t))
	until(t, "it is issued", func() bool { return f.ID() != "" })
	control.set(false, newAuthority(t, 0))
	until(t, "it lasts as long as the new authority's", func() bool { return f.NotAfter().After(time.Now().Add(24 * time.Hour)) })
	control.mu.Lock()
	asked := control.asked
	control.mu.Unlock()
	time.Sleep(100 * time.Millisecond) // ten looks
	control.mu.Lock()
	defer control.mu.Unlock()
	if control.asked > asked+1 {
		t.Errorf("what is good is asked for again, %d times", control.asked-asked)
	}
}
