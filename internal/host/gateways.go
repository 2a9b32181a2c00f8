package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/wire"
)

// loadGateways reads the known gateways, :: name → poll address. When both
// copies are damaged it goes on with none until control tells: nothing is
// granted to anybody until then, and control tells at once.
func (h *Host) loadGateways() (map[string]string, error) {
	copies, err := readTwice[map[string]string](h.folder, fileGateways, h.log)
	if errors.Is(err, errDamaged) {
		h.log.Error("the gateways are unknown until control tells", "record", h.folder.path(fileGateways))
		return map[string]string{}, h.folder.setBothAside(fileGateways, err, h.log)
	}
	if err != nil || len(copies) == 0 {
		return map[string]string{}, err
	}
	return copies[0], nil
}

// takeGateways obeys a list from the leader: it is on disk before it is followed.
func (h *Host) takeGateways(m *pb.GatewayList) error {
	if err := h.admit(wire.Epoch(m.GetEpoch())); err != nil {
		return fmt.Errorf("cannot take the list of gateways: %w", err)
	}
	list := map[string]string{}
	for _, g := range m.GetGateways() {
		list[g.GetName()] = g.GetPollAddress()
	}
	if err := h.folder.writeTwice(fileGateways, list); err != nil {
		return err
	}
	h.follow(list)
	return nil
}

// follow makes list the known gateways: credits of one that is no longer known
// return, and its acknowledgements are waited for no more.
func (h *Host) follow(list map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, l := range h.links {
		if addr, ok := list[name]; !ok || addr != l.addr {
			l.cancel()
			l.out.stop()
			h.ledger.disconnect(name)
			delete(h.links, name)
			if !ok {
				h.letGatewayGoLocked(name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if h.links[name] == nil && h.ctx.Err() == nil {
			h.links[name] = h.newLink(name, list[name])
		}
	}
	h.sendLocked(h.ledger.know(slices.Sorted(maps.Keys(list))))
	for _, e := range h.endings {
		e.Waiting = slices.DeleteFunc(e.Waiting, func(n string) bool { _, ok := list[n]; return !ok })
	}
	for _, in := range h.instances {
		in.stirLocked()
	}
	h.touchAllLocked()
	h.housekeepSoon()
}

// sendLocked hands moves of the ledger to the gateways they are for.
func (h *Host) sendLocked(moves []move) {
	for _, m := range moves {
		l, in := h.links[m.gateway], h.instances[m.instance]
		switch {
		case l == nil || in == nil:
			h.log.Error("credits move where nobody is", "gateway", m.gateway, "instance", m.instance)
		case m.grant > 0:
			l.out.offer(in, m.grant)
		case m.recall > 0:
			l.out.recall(m.instance, m.recall)
		}
	}
}
