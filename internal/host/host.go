package host

import (
	"context"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Host is one host role. It is made by New, which locks its folder, and runs
// once.
type Host struct {
	cfg       Config
	log       *slog.Logger
	folder    *folder
	ports     *ports
	artifacts *artifacts
	words     *words
	lent      *identities
	boot      string
	session   string // of this process, told to control and gateways
	leader    atomic.Pointer[grpc.ClientConn]
	relays    atomic.Pointer[[]string] // as control told them last; nil: it never did
	departure departure

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
	running   bool // slots are kept
	closing   bool
	slots     map[string]*slot     // :: slot → slot
	retired   uint64               // instances withdrawn so far
	instances map[string]*instance // :: instance → instance
	ledger    *ledger
	links     map[string]*link   // :: gateway name → link
	processes map[string]*handle // :: gateway name → its process, where that can be held
	endings   map[string]*ending // :: instance → its end, not yet acknowledged by all
	outgoing  outgoing
	gateways  map[string]string // :: gateway name → poll address, as known when the host was made
	// damagedSlots are those whose record was put aside; used by the adoption only.
	damagedSlots map[string]bool // :: slot
	chores       chan struct{}   // holds one when endings are to be settled
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
		links: map[string]*link{}, processes: map[string]*handle{}, endings: map[string]*ending{}, outgoing: newOutgoing(), chores: make(chan struct{}, 1),
		departure: newDeparture(),
	}
	h.lent = &identities{h: h}
	if h.boot, err = bootID(); err != nil {
		return nil, err
	}
	if h.folder, err = openFolder(cfg.Dir, h.log); err != nil {
		return nil, err
	}
	if err := h.load(); err != nil {
		h.words.close()
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
	if h.words, err = openWords(h); err != nil {
		return err
	}
	if h.fence, err = loadFence(h.folder, h.log); err != nil {
		return err
	}
	slots, damaged, err := readAll[slotRecord](h.folder, dirSlots, h.log)
	if err != nil {
		return err
	}
	h.damagedSlots = damaged
	if h.gateways, err = h.loadGateways(); err != nil {
		return err
	}
	h.loadRelays()
	for _, r := range slots {
		h.slots[r.Assignment.Slot] = newSlot(r)
	}
	return h.loadEndings()
}

// Run adopts what runs already, keeps the assigned slots running and speaks
// with control and gateways until ctx ends; then it has others take what runs,
// for as long as is configured, and drains and stops the rest, or leaves all of
// it running when so configured. Assignments stay on disk.
func (h *Host) Run(ctx context.Context) error {
	defer h.folder.close()
	defer h.words.close()
	defer h.life.Wait()
	defer h.cancel()
	// Adoption needs the known gateways: each may hold credits of what lives on.
	h.mu.Lock()
	h.ledger.know(slices.Sorted(maps.Keys(h.gateways)))
	h.mu.Unlock()
	if err := h.adopt(); err != nil {
		return err
	}
	h.follow(h.gateways)
	h.mu.Lock()
	h.running = true
	for _, s := range h.slots {
		h.keepers.Go(func() { h.keep(s) })
	}
	h.mu.Unlock()
	h.life.Go(func() {
		defer close(h.departure.detached)
		h.attach()
	})
	h.life.Go(h.words.serve)
	h.life.Go(h.houseKeep)
	h.life.Go(h.lent.keep)
	<-ctx.Done()
	if !h.cfg.KeepInstances {
		h.leave()
		h.shutDown()
		h.tellStopped()
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
