package resolver_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/resolver"
	"github.com/fairlead-platform/fairlead/view"
)

// nobody is an address that refuses connections.
const nobody = "127.0.0.1:1"

func TestTheTableIsServedFromDiskBeforeAnyConnection(t *testing.T) {
	path := file(t)
	one := seed(t, path)
	h := open(t, config(path, nobody))
	if revision(h.Table(), "a") != "a-1" {
		t.Fatalf("serves %+v", h.Table().Routes())
	}
	s := h.Status()
	if s.Version != one.Version || s.Keeps != one.Version || s.Source != resolver.SourceDisk || s.Connected || s.Age <= 0 || s.Epoch != leader {
		t.Errorf("status: %+v", s)
	}
}

func TestWithoutAFileAndAControlNothingIsHeldAndNothingFails(t *testing.T) {
	h := open(t, config(file(t), nobody))
	stop := run(t, h)
	if h.Table() != nil || h.Status().Source != resolver.SourceNone {
		t.Errorf("holds %+v", h.Status())
	}
	stop()
}

func TestTheTableFromDiskIsAppliedBeforeAControlIsDialled(t *testing.T) {
	path := file(t)
	seed(t, path)
	var applied []string
	c := serve(t, "", func(service.GatewayState) (view.Epoch, error) {
		return leader, nil
	})
	c.Offer(table(leader, 2, "a-2"))
	cfg := config(path, c.address)
	cfg.OnApply = func(t *view.Table) { applied = append(applied, revision(t, "a")) }
	h := open(t, cfg)
	stop := run(t, h)
	until(t, h, "the newer table is kept", kept(table(leader, 2).Version))
	stop()
	if strings.Join(applied, " ") != "a-1 a-2" {
		t.Errorf("applied %v", applied)
	}
	if g := c.last.Load().(service.GatewayState); g.Serves.Counter != 1 || g.Keeps.Counter != 1 || g.Epoch != leader {
		t.Errorf("said of itself: %+v", g)
	}
}

func TestServesIsAcknowledgedOnlyAfterOnApplyReturned(t *testing.T) {
	c := serve(t, "", admitAll)
	entered, release := make(chan struct{}), make(chan struct{})
	cfg := config(file(t), c.address)
	cfg.OnApply = func(*view.Table) {
		close(entered)
		<-release
	}
	h := open(t, cfg)
	run(t, h)
	one := table(leader, 1, "a-1")
	c.Offer(one)
	<-entered
	if g := c.States()[0]; !g.Serves.Zero() || !g.Keeps.Zero() {
		t.Errorf("acknowledged before it is in force: %+v", g)
	}
	close(release)
	awaitState(t, c, func(g service.GatewayState) bool { return g.Serves == one.Version && g.Keeps == one.Version })
}

func TestWhoListensIsCalledBeforeATableIsAcknowledged(t *testing.T) {
	path := file(t)
	seed(t, path)
	c := serve(t, "", admitAll)
	h := open(t, config(path, c.address))
	heard := make(chan string)
	cancel := h.OnChange(func(now *view.Table) {
		select {
		case heard <- revision(now, "a"):
		case <-t.Context().Done(): // the test has failed
		}
	})
	run(t, h)
	if got := <-heard; got != "a-1" {
		t.Errorf("began with %q", got)
	}
	two, three := table(leader, 2, "a-2", "b-1"), table(leader, 3, "a-3", "b-1")
	c.Offer(two)
	until(t, h, "it is held", func(s resolver.HolderStatus) bool { return s.Version == two.Version })
	if g := c.States()[0]; g.Serves == two.Version {
		t.Errorf("acknowledged before it was heard: %+v", g)
	}
	if got := <-heard; got != "a-2" {
		t.Errorf("heard %q", got)
	}
	awaitState(t, c, func(g service.GatewayState) bool { return g.Serves == two.Version })
	cancel()
	c.Offer(three)
	awaitState(t, c, func(g service.GatewayState) bool { return g.Serves == three.Version })
}

func awaitState(t *testing.T, c *control, ok func(service.GatewayState) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		changed := c.Changed()
		states := c.States()
		if len(states) == 1 && ok(states[0]) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited in vain: %+v", states)
		}
	}
}

func TestALostControlChangesNothingAndIsFollowedAgainWithinASecond(t *testing.T) {
	c := serve(t, "", admitAll)
	one := table(leader, 1, "a-1")
	c.Offer(one)
	h := open(t, config(file(t), c.address))
	run(t, h)
	until(t, h, "the table is kept", kept(one.Version))
	c.stop()
	s := until(t, h, "the loss is noticed", func(s resolver.HolderStatus) bool { return !s.Connected })
	if s.Version != one.Version || revision(h.Table(), "a") != "a-1" || s.Source != resolver.SourceStream {
		t.Errorf("after the loss: %+v", s)
	}
	began := time.Now()
	serve(t, c.address, admitAll)
	until(t, h, "it is followed again", func(s resolver.HolderStatus) bool { return s.Connected })
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("followed again after %s", took)
	}
}

func TestAControlThatAnswersNothingIsLeftForAnother(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0") // its kernel takes connections
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	c := serve(t, "", admitAll)
	h := open(t, config(file(t), mute.Addr().String(), c.address))
	run(t, h)
	until(t, h, "the other is followed", func(s resolver.HolderStatus) bool { return s.Control == c.address })
}

func TestAControlThatLivesMayTakeItsTimeToAdmit(t *testing.T) {
	store := time.NewTimer(4 * time.Second) // a store that is slow to answer
	defer store.Stop()
	c := serve(t, "", func(service.GatewayState) (view.Epoch, error) {
		<-store.C
		return leader, nil
	})
	h := open(t, config(file(t), c.address))
	run(t, h)
	until(t, h, "it is admitted", func(s resolver.HolderStatus) bool { return s.Connected })
	if n := c.hellos.Load(); n != 1 {
		t.Errorf("it asked %d times", n)
	}
}

func TestARefusalLeadsToTheLeaderThatItNames(t *testing.T) {
	lead := serve(t, "", admitAll)
	other := serve(t, "", func(service.GatewayState) (view.Epoch, error) { return view.Epoch{}, standby(lead.address) })
	h := open(t, config(file(t), other.address))
	run(t, h)
	until(t, h, "the leader is followed", func(s resolver.HolderStatus) bool { return s.Control == lead.address })
}

type standby string

func (standby) Error() string    { return "another leads" }
func (s standby) Leader() string { return string(s) }

func TestAnotherIncarnationIsRefusedOverAStreamThatProvesNothing(t *testing.T) {
	path := file(t)
	seed(t, path)
	foreign := view.Epoch{Incarnation: "j", Number: 1, Nonce: "n"}
	c := serve(t, "", func(service.GatewayState) (view.Epoch, error) { return foreign, nil })
	c.Offer(table(foreign, 1, "a-9"))
	cfg := config(path, c.address)
	cfg.Authenticated = nil // the default asks for a transport with integrity
	h := open(t, cfg)
	run(t, h)
	s := until(t, h, "it is said", func(s resolver.HolderStatus) bool { return len(s.Notes) > 0 })
	if revision(h.Table(), "a") != "a-1" || !strings.Contains(s.Notes[0], "authenticated") {
		t.Errorf("status: %+v", s)
	}
}

func TestAnotherIncarnationIsFollowedAndSaid(t *testing.T) {
	path := file(t)
	seed(t, path)
	foreign := view.Epoch{Incarnation: "j", Number: 1, Nonce: "n"}
	c := serve(t, "", func(service.GatewayState) (view.Epoch, error) { return foreign, nil })
	two := table(foreign, 1, "a-2")
	c.Offer(two)
	h := open(t, config(path, c.address))
	run(t, h)
	s := until(t, h, "it is kept", kept(two.Version))
	if len(s.Notes) != 2 || !strings.Contains(s.Notes[0], "another incarnation") || !strings.Contains(s.Notes[1], "absent without a tombstone") {
		t.Errorf("notes: %q", s.Notes)
	}
	if revision(h.Table(), "a") != "a-2" || revision(h.Table(), "b") != "b-1" || strings.Join(s.Orphaned, " ") != "b" {
		t.Errorf("serves %+v, orphans %v", h.Table().Routes(), s.Orphaned)
	}
	awaitState(t, c, func(g service.GatewayState) bool { return strings.HasPrefix(g.Refused["b"], view.ReasonOrphaned) })
}

func TestObjectionsAreToldAgainToAControlThatHasJustStarted(t *testing.T) {
	c := serve(t, "", admitAll)
	cfg := config(file(t), c.address)
	cfg.Refuse = func(r view.Route) error {
		if r.Service == "a" {
			return errors.New("not today")
		}
		return nil
	}
	one := table(leader, 1, "a-1", "b-1")
	c.Offer(one)
	h := open(t, cfg)
	run(t, h)
	until(t, h, "it is kept", kept(one.Version))
	c.stop()
	c = serve(t, c.address, admitAll)
	awaitState(t, c, func(g service.GatewayState) bool { return g.Refused["a"] == "not today" && g.Serves == one.Version })
}

func TestADeltaThatDoesNotFitIsAnsweredByAskingForAllOfIt(t *testing.T) {
	path := file(t)
	// A plane that held another content under the version 1 than the next one knows.
	seed(t, path)
	c := serve(t, "", admitAll)
	two := view.NewTable(table(leader, 2).Version, leader, []view.Route{
		{Service: "a", Sequence: 1, Hosts: []string{"else.localhost"}}, table(leader, 2, "c-2").Routes()[0],
	})
	c.Offer(two)
	h := open(t, config(path, c.address))
	run(t, h)
	until(t, h, "it is kept", kept(two.Version))
	if n := c.hellos.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	if r, _ := h.Table().Route("a"); len(r.Hosts) != 1 || r.Hosts[0] != "else.localhost" {
		t.Errorf("serves %+v", h.Table().Routes())
	}
}

func TestAnOlderEpochIsRefusedAfterARestartAndShownTheHigherOne(t *testing.T) {
	path := file(t)
	higher := view.Epoch{Incarnation: "i", Number: 9, Nonce: "n9"}
	c := serve(t, "", func(service.GatewayState) (view.Epoch, error) { return higher, nil })
	h := open(t, config(path, c.address))
	stop := run(t, h)
	until(t, h, "the epoch is held", func(s resolver.HolderStatus) bool { return s.Connected })
	stop()
	c.stop()

	old := serve(t, "", admitAll)
	old.Offer(table(leader, 99, "a-99"))
	h = open(t, config(path, old.address))
	run(t, h)
	s := until(t, h, "it is said", func(s resolver.HolderStatus) bool { return len(s.Notes) > 0 })
	if h.Table() != nil || s.Epoch != higher {
		t.Errorf("obeyed: %+v", s)
	}
	if g := old.last.Load().(service.GatewayState); g.Epoch != higher {
		t.Errorf("it was shown %s", g.Epoch)
	}
}

func TestALeaderOfAnEarlierIncarnationIsShownItsOwnHigherEpoch(t *testing.T) {
	path := file(t)
	seed(t, path) // incarnation i, epoch 1
	foreign := view.Epoch{Incarnation: "j", Number: 5, Nonce: "n"}
	c := serve(t, "", func(service.GatewayState) (view.Epoch, error) { return foreign, nil })
	h := open(t, config(path, c.address))
	stop := run(t, h)
	until(t, h, "it is connected", func(s resolver.HolderStatus) bool { return s.Connected })
	stop()
	c.stop()
	rival := view.Epoch{Incarnation: "i", Number: 1, Nonce: "another"}
	shown := make(chan view.Epoch, 100)
	c = serve(t, "", func(g service.GatewayState) (view.Epoch, error) {
		select {
		case shown <- g.Epoch:
		default:
		}
		return rival, nil
	})
	h = open(t, config(path, c.address))
	run(t, h)
	for _, want := range []view.Epoch{foreign, leader} {
		select {
		case got := <-shown:
			if got != want {
				t.Errorf("was shown %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatal("no hello")
		}
	}
}

func TestReadersNeverWaitForAnApplicationThatHangs(t *testing.T) {
	c := serve(t, "", admitAll)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	cfg := config(file(t), c.address)
	cfg.OnApply = func(*view.Table) {
		once.Do(func() { close(entered) })
		<-release
	}
	h := open(t, cfg)
	run(t, h)
	c.Offer(table(leader, 1, "a-1"))
	<-entered
	if revision(h.Table(), "a") != "a-1" || h.Status().Version.Counter != 1 {
		t.Error("not to be read meanwhile")
	}
	close(release)
}

func TestABurstOfDeltasNeedsFewWritesAndKeepsNamesWhatIsOnDisk(t *testing.T) {
	c := serve(t, "", admitAll)
	path := file(t)
	h := open(t, config(path, c.address))
	run(t, h)
	until(t, h, "it is connected", func(s resolver.HolderStatus) bool { return s.Connected })
	for i := range uint64(300) {
		c.Offer(table(leader, i+1, "a-1"))
		if g := c.States()[0]; !g.Keeps.Zero() && i%10 == 0 {
			onDisk := open(t, config(path, nobody)).Status().Version
			if onDisk.Against(g.Keeps) == view.Older {
				t.Fatalf("acknowledged as kept %s, on disk is %s", g.Keeps, onDisk)
			}
		}
	}
	until(t, h, "the last is kept", kept(table(leader, 300).Version))
	if writes := h.Writes(); writes >= 300 {
		t.Errorf("%d writes", writes)
	}
}

func TestAHolderRunsOnce(t *testing.T) {
	h := open(t, config(file(t), nobody))
	stop := run(t, h)
	stop()
	if err := h.Run(t.Context()); err == nil {
		t.Error("ran twice")
	}
}

func TestAConfigurationWithoutWhatIsNeededIsRefused(t *testing.T) {
	for name, edit := range map[string]func(*resolver.HolderConfig){
		"name":     func(c *resolver.HolderConfig) { c.Name = "" },
		"path":     func(c *resolver.HolderConfig) { c.Path = "" },
		"controls": func(c *resolver.HolderConfig) { c.Controls = nil },
	} {
		cfg := config(file(t), nobody)
		edit(&cfg)
		if _, err := resolver.OpenHolder(cfg); err == nil {
			t.Errorf("opened without %s", name)
		}
	}
}

func TestAGoodbyeWithoutAControlSaysSo(t *testing.T) {
	h := open(t, config(file(t), nobody))
	run(t, h)
	ctx, cancel := contextFor(50 * time.Millisecond)
	defer cancel()
	if err := h.Goodbye(ctx); err == nil || !strings.Contains(err.Error(), "no control is connected") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyATransportWithIntegrityProvesAnything(t *testing.T) {
	tls := credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	plain := insecure.NewCredentials()
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	_, info, err := plain.ClientHandshake(t.Context(), "", conn)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		info credentials.AuthInfo
		want bool
	}{"tls": {tls, true}, "plain": {info, false}, "none": {nil, false}} {
		if got := resolver.Private(&peer.Peer{AuthInfo: c.info}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheFolderOfTheTableIsMadeForItsOwnerAlone(t *testing.T) {
	path := file(t)
	seed(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
}

func TestTheAgeIsThatOfWhatWasLastHeard(t *testing.T) {
	path := file(t)
	seed(t, path)
	long := time.Now().Add(-3 * time.Hour)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	c := serve(t, "", admitAll)
	h := open(t, config(path, c.address))
	if age := h.Status().Age; age < 3*time.Hour || age > 4*time.Hour {
		t.Errorf("from disk: %s", age)
	}
	run(t, h)
	s := until(t, h, "it is connected", func(s resolver.HolderStatus) bool { return s.Connected })
	if s.Age > time.Minute {
		t.Errorf("from the stream: %s", s.Age)
	}
}
