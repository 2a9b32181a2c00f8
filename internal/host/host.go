package host

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Host is one host role. It is made by New, which locks its folder, and runs
// once.
type Host struct {
	cfg       Config
	log       *slog.Logger
	folder    *folder
	ports     *ports
	artifacts *artifacts
	boot      string
	session   string // of this process, told to control and gateways
	leader    atomic.Pointer[grpc.ClientConn]

	fenceMu sync.Mutex
	fence   Fence

	// stripes order what is written of one slot; never locked under mu.
	stripes [64]sync.Mutex
	seed    maphash.Seed
	// endingsMu orders writes of the endings; never locked under mu.
	endingsMu sync.Mutex

	ctx     context.Context // ends when the host lets go of everything
	cancel  context.CancelFunc
	life    sync.WaitGroup // of all goroutines but the keepers
	keepers sync.WaitGroup // of the slots

	mu        sync.Mutex
	closing   bool
	slots     map[string]*slot     // :: slot → slot
	instances map[string]*instance // :: instance → instance
	ledger    *ledger
	links     map[string]*link   // :: gateway name → link
	endings   map[string]*ending // :: instance → its end, not yet acknowledged by all
	outgoing  outgoing
	chores    chan struct{} // holds one when endings are to be settled
}

// New locks the host's folder and reads what it was assigned. A folder that
// another process holds is [fault.Conflict].
func New(cfg Config) (*Host, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Host{
		cfg: cfg, log: cfg.Logger.With("host", cfg.Name), session: mint(cfg.Now), seed: maphash.MakeSeed(),
		slots: map[string]*slot{}, instances: map[string]*instance{}, ledger: newLedger(),
		links: map[string]*link{}, endings: map[string]*ending{}, outgoing: newOutgoing(), chores: make(chan struct{}, 1),
	}
	if h.boot, err = bootID(); err != nil {
		return nil, err
	}
	if h.folder, err = openFolder(cfg.Dir); err != nil {
		return nil, err
	}
	if err := h.load(); err != nil {
		h.folder.close()
		return nil, err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// load reads the records that do not depend on what runs.
func (h *Host) load() error {
	var err error
	if h.ports, err = openPorts(h.cfg); err != nil {
		return err
	}
	setDefault(&h.cfg.UserDir, "/var/tmp/fairlead-"+h.folder.marker)
	h.artifacts = &artifacts{dir: h.folder.path(dirArtifacts), fetch: h.fetchArtifact}
	if err := h.folder.read(fileFence, &h.fence); ignoreMissing(err) != nil {
		return fault.New(fault.NeedsOperator, "the epochs that this host obeyed are unknown: remove the file to obey the present leader",
			"cannot trust this host's folder: %w", err)
	}
	slots, err := readAll[slotRecord](h.folder, dirSlots, h.log)
	if err != nil {
		return err
	}
	for _, r := range slots {
		h.slots[r.Assignment.Slot] = newSlot(r)
	}
	return h.loadEndings()
}

// Run adopts what runs already, keeps the assigned slots running and speaks
// with control and gateways until ctx ends; then it drains and stops all
// instances, or leaves them when so configured. Assignments stay on disk.
func (h *Host) Run(ctx context.Context) error {
	defer h.folder.close()
	defer h.life.Wait()
	defer h.cancel()
	gateways, err := h.loadGateways()
	if err != nil {
		return err
	}
	// Adoption needs the known gateways: each may hold credits of what lives on.
	h.mu.Lock()
	h.ledger.know(slices.Sorted(maps.Keys(gateways)))
	h.mu.Unlock()
	if err := h.adopt(); err != nil {
		return err
	}
	h.follow(gateways)
	h.mu.Lock()
	for _, s := range h.slots {
		h.keepers.Go(func() { h.keep(s) })
	}
	h.mu.Unlock()
	h.life.Go(h.attach)
	h.life.Go(h.houseKeep)
	<-ctx.Done()
	if !h.cfg.KeepInstances {
		h.shutDown()
	}
	h.cancel()
	h.keepers.Wait()
	return h.saveEndings()
}

// shutDown retires every instance. Streams go on meanwhile, since gateways are
// to acknowledge.
func (h *Host) shutDown() {
	h.mu.Lock()
	h.closing = true
	for _, s := range h.slots {
		s.stir()
	}
	h.mu.Unlock()
	h.keepers.Wait()
	for deadline := time.Now().Add(time.Second); !h.farewellSaid() && time.Now().Before(deadline); {
		time.Sleep(gather)
	}
}

// farewellSaid: who is connected knows the ends of all instances. Others are
// told when the host runs again.
func (h *Host) farewellSaid() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.endings {
		if slices.ContainsFunc(e.Waiting, func(n string) bool { return h.links[n] != nil && h.links[n].connected }) {
			return false
		}
	}
	return h.leader.Load() == nil || len(h.outgoing.gone) == 0
}

// start makes the next process of a slot. What fails is shown as an instance
// that exited, and tried again after the back-off.
func (h *Host) start(s *slot) {
	h.mu.Lock()
	r := record{ID: mint(h.cfg.Now), Assignment: s.rec.Assignment, Restarts: s.rec.Restarts, Boot: h.boot}
	before := lastEnded(s.instances)
	h.mu.Unlock()
	in, err := h.launch(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instances[r.ID] = in
	s.instances = append(s.instances, in)
	h.touchLocked(in)
	if err != nil {
		h.log.Error("cannot start an instance", "slot", s.id(), "error", err)
		in.state, in.detail = service.InstanceExited, err.Error()
		close(in.gone)
		h.endLocked(in)
		s.endedLocked(in, 0, h.cfg.Timing)
		return
	}
	in.detail = fmt.Sprintf("does not listen on its PORT %d yet", r.Port)
	if before != nil {
		in.lastLines = before.lastLines
		in.detail = fmt.Sprintf("started again after %s", before.detail)
	}
	h.log.Info("instance started", "instance", r.ID, "slot", s.id(), "revision", r.Assignment.Revision, "pid", in.rec.Pid, "port", in.rec.Port)
	h.tend(in)
}

func lastEnded(list []*instance) *instance {
	for _, in := range slices.Backward(list) {
		if !in.runs() && !in.retiring {
			return in
		}
	}
	return nil
}

// launch does all that precedes a process, and makes it. The instance is
// returned in any case; only without an error does it run.
func (h *Host) launch(r record) (*instance, error) {
	t := r.Assignment.Template
	failed := func(err error) (*instance, error) { return h.newInstance(r), err }
	if err := h.checkTemplate(t); err != nil {
		return failed(err)
	}
	user, err := accountOf(t.User)
	if err != nil {
		return failed(err)
	}
	if r.Port, err = h.ports.claim(r.ID); err != nil {
		return failed(err)
	}
	if r.Folder, err = h.folderFor(r.ID, user); err != nil {
		return failed(err)
	}
	if err := h.folder.write(instanceFile(r.ID), r); err != nil {
		return failed(err)
	}
	in := h.newInstance(r)
	if err := h.launchIn(in, user); err != nil {
		return in, err
	}
	return in, nil
}

// folderFor names an instance's folder: below the host's own, or, for another
// user, where that one can reach it without passing the host's.
func (h *Host) folderFor(id string, user *account) (string, error) {
	if user == nil {
		return h.folder.path(dirWork, id), nil
	}
	if err := trustedDir(h.cfg.UserDir); err != nil {
		return "", err
	}
	return h.cfg.UserDir + "/" + id, nil
}

func (h *Host) launchIn(in *instance, user *account) error {
	t := in.rec.Assignment.Template
	f, err := makeFolders(in.rec.Folder, user)
	if err != nil {
		return err
	}
	l := launch{user: user, dir: f.dir}
	home := f.dir
	if user != nil {
		home = user.home
	}
	if t.Dir != "" {
		l.dir = t.Dir
	}
	l.env = h.environment(in.rec, home, f.tmp)
	l.argv = expandAll(t.Command, l.env)
	if l.path, err = h.programFor(in.rec, l, user); err != nil {
		return err
	}
	if l.out, err = in.journal.open(); err != nil {
		return err
	}
	child, err := spawn(l)
	if err := errors.Join(err, l.out.Close()); err != nil {
		return err
	}
	return h.taken(in, child)
}

// taken holds the new process and records it. Where that fails the process is
// ended, since nobody would know of it.
func (h *Host) taken(in *instance, child *os.Process) error {
	in.child = child
	var err error
	if in.leader, err = hold(child.Pid, 0); err == nil {
		in.rec.Pid, in.rec.Start = child.Pid, in.leader.start
		err = h.folder.write(instanceFile(in.rec.ID), in.rec)
	}
	if err == nil {
		return nil
	}
	kerr := child.Kill()
	if in.leader != nil {
		kerr = errors.Join(kerr, killMembers(in.leader, in.rec.ID, h.cfg.Timing.Kill))
		in.leader.close()
	}
	_, werr := child.Wait()
	return errors.Join(err, kerr, werr)
}

// programFor is the file to run: the artifact's copy, or the command found.
func (h *Host) programFor(r record, l launch, user *account) (string, error) {
	t := r.Assignment.Template
	if t.Artifact == "" {
		return findCommand(l.argv[0], l.dir, l.env["PATH"])
	}
	ctx, cancel := context.WithTimeout(h.ctx, time.Minute)
	defer cancel()
	path, err := h.artifacts.get(ctx, t.Artifact)
	if err != nil || user == nil {
		return path, err
	}
	return copyForUser(path, r.Folder)
}
