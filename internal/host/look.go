package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead-platform/fairlead/internal/service"
)

const (
	lookFirst    = 10 * time.Millisecond  // after a start, growing
	lookMost     = 250 * time.Millisecond // while it is not live
	lookThorough = time.Second            // between looks at all that its session listens on
	lookTimeout  = time.Second            // of a ready path, and of a dial
	shownLines   = 8
)

// ownSocket is a listening socket that a process of the session holds. As long
// as the link leads to it, it is open.
type ownSocket struct {
	link  string
	inode uint64
}

// sight is what one look at an instance saw.
type sight struct {
	live   bool
	detail string // empty means: as before
	held   *ownSocket
	blind  bool // it could not be told whether it listens
	lines  []string
}

// look looks at an instance, again and again, until it has ended.
func (h *Host) look(in *instance) {
	wait, thorough := lookFirst, time.Now().Add(lookThorough/2)
	for turn := false; ; {
		deep := time.Now().After(thorough)
		if deep {
			thorough = time.Now().Add(lookThorough)
		}
		live := h.saw(in, h.sight(in, deep), turn)
		wait = min(wait*5/4, lookMost)
		if live {
			wait = h.cfg.Timing.Look
		}
		again := time.NewTimer(wait)
		select {
		case <-in.gone:
		case <-h.ctx.Done():
		case <-in.poke:
			turn = false
		case <-again.C:
			turn = true
		}
		again.Stop()
		if h.ctx.Err() != nil || isClosed(in.gone) {
			return
		}
		if live {
			wait = lookFirst
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sight judges an instance now. Only a deep look pays for telling what it does
// listen on when it is not its port.
func (h *Host) sight(in *instance, deep bool) sight {
	h.mu.Lock()
	held, live := in.held, in.state == service.InstanceLive
	h.mu.Unlock()
	s := sight{held: held}
	if held == nil || !held.open() {
		s = h.findSocket(in, deep || live)
	}
	if s.held == nil {
		if deep {
			s.lines = in.journal.lastLines(shownLines)
		}
		return s
	}
	if in.halted = in.halts(s.held); in.halted > haltedLooks {
		return sight{held: s.held, detail: fmt.Sprintf("its process %d is stopped (SIGSTOP or a debugger): its port takes connections, and nothing answers; kill -CONT %[1]d has it go on", s.held.pid())}
	}
	if path := in.rec.Assignment.Template.ReadyPath; path != "" {
		if why := ready(h.ctx, in.addr, path); why != "" {
			return sight{held: s.held, detail: why, lines: in.journal.lastLines(shownLines)}
		}
	}
	return sight{live: true, held: s.held}
}

// halts counts looks in a row at which the process that holds the socket was
// stopped: the socket takes connections all the same, so that no probe of a port
// notices.
func (in *instance) halts(held *ownSocket) int {
	p, err := readProc(held.pid())
	if err != nil || p.state != 'T' && p.state != 't' {
		return 0
	}
	return in.halted + 1
}

// pid of the process by which the socket is known.
func (o *ownSocket) pid() int {
	name, _, _ := strings.Cut(strings.TrimPrefix(o.link, "/proc/"), "/")
	pid, err := strconv.Atoi(name)
	if err != nil {
		return 0 // no process
	}
	return pid
}

// haltedLooks in a row say nothing yet: who takes a picture of a process stops it
// for a moment.
const haltedLooks = 1

func (o *ownSocket) open() bool {
	inode, ok := socketAt(o.link)
	return ok && inode == o.inode
}

// findSocket looks for a listening socket of the session at the instance's
// address.
func (h *Host) findSocket(in *instance, deep bool) sight {
	all, err := machineListeners()
	if err != nil {
		return sight{detail: err.Error(), blind: true}
	}
	onPort := slices.ContainsFunc(all, func(l listener) bool { return l.addr.Port() == in.addr.Port() })
	if !onPort && !deep {
		return sight{}
	}
	if !deep {
		if s := judgeSockets(all, socketsOf(in.rec.Pid), in.addr); s.held != nil {
			return s
		}
	}
	own := map[uint64]string{} // :: inode → link
	holders, strangers := h.sessionOf(in, deep)
	for _, pid := range holders {
		for inode, link := range socketsOf(pid) {
			own[inode] = link
		}
	}
	s := judgeSockets(all, own, in.addr)
	if s.held == nil && len(strangers) > 0 {
		s.detail = leftDetail(strangers[0])
	}
	return s
}

// sessionOf gives the processes of the instance's session, its leader first,
// and, on a deep look, those that left it.
func (h *Host) sessionOf(in *instance, deep bool) (pids []int, strangers []proc) {
	pids = []int{in.rec.Pid}
	if !deep {
		all, err := allProcs()
		if err != nil {
			return pids, nil
		}
		for _, p := range all {
			if p.session == in.rec.Pid && p.pid != in.rec.Pid {
				pids = append(pids, p.pid)
			}
		}
		return pids, nil
	}
	procs, err := h.familyOf(in).members()
	if err != nil {
		return pids, nil
	}
	h.remember(in, procs)
	for _, p := range procs {
		if p.session == in.rec.Pid {
			pids = append(pids, p.pid)
		} else {
			strangers = append(strangers, p)
		}
	}
	return pids, strangers
}

// judgeSockets says whether one of the session's own sockets is at its address.
func judgeSockets(all []listener, own map[uint64]string, want netip.AddrPort) sight {
	var addrs []netip.AddrPort
	held := &ownSocket{}
	for _, l := range all {
		link, ok := own[l.inode]
		if !ok {
			continue
		}
		addrs = append(addrs, l.addr)
		if l.addr.Port() == want.Port() {
			if r, _ := judgeListeners([]netip.AddrPort{l.addr}, want); r != reachNo || held.link == "" {
				*held = ownSocket{link, l.inode}
			}
		}
	}
	r, detail := judgeListeners(addrs, want)
	if r == reachMaybe && !dials(want) {
		r, detail = reachNo, fmt.Sprintf("listens on [::]:%d for IPv6 only; bind to %s or %s", want.Port(), wildcard(want.Addr()), want.Addr())
	}
	if r == reachNo {
		return sight{detail: detail}
	}
	return sight{held: held}
}

func dials(a netip.AddrPort) bool {
	c, err := net.DialTimeout("tcp", a.String(), lookTimeout)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// ready asks the ready path, and says why the answer is not one of a ready
// instance; empty means that it is.
func ready(ctx context.Context, addr netip.AddrPort, path string) string {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if len(path) == 0 || path[0] != '/' {
		path = "/" + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr.String()+path, nil)
	if err != nil {
		return fmt.Sprintf("ready path %s cannot be asked: %v", path, err)
	}
	req.Header.Set("User-Agent", "fairlead-host")
	once := &http.Transport{DisableKeepAlives: true}
	resp, err := once.RoundTrip(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("ready path %s does not answer within %s", path, lookTimeout)
	}
	if err != nil {
		return fmt.Sprintf("ready path %s does not answer: %v", path, err)
	}
	resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Sprintf("ready path %s answers %s", path, resp.Status)
	}
	return ""
}

// saw applies what a look saw. Only a look at its turn ends the doubt of a
// gateway that was refused, so that a refusal cannot chase its own tail.
func (h *Host) saw(in *instance, s sight, turn bool) (live bool) {
	if s.live && !in.offeredOnce() {
		h.recordOffer(in)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	in.held = s.held
	was := in.state
	switch {
	case in.retiring || !in.runs():
		return true // at ease: nothing depends on it any more
	case s.live && was != service.InstanceLive:
		in.state, in.detail, in.lastLines, in.liveSince = service.InstanceLive, "", nil, time.Now()
		h.offerLocked(in)
	case s.live && turn:
		h.sendLocked(h.ledger.vouch(in.rec.ID))
	case !s.live && was == service.InstanceLive:
		in.lived = in.liveFor()
		in.state, in.liveSince = service.InstanceStarting, time.Time{}
	}
	s = in.listenLocked(s, h.cfg.Timing.DeafFor)
	changed := in.state != was || in.deaf
	if !s.live && s.detail != "" && s.detail != in.detail {
		in.detail, changed = s.detail, true
	}
	if s.lines != nil && !slices.Equal(s.lines, in.lastLines) {
		in.lastLines, changed = s.lines, true
	}
	if changed {
		h.touchLocked(in)
		h.stirSlotLocked(in)
	}
	return s.live
}

// listenLocked notes whether an instance that was live still listens; its
// deafness ends in its replacement. A ready path that fails is no deafness: what
// it depends on may be down for all, and a new process would not help.
func (in *instance) listenLocked(s sight, deafFor time.Duration) sight {
	switch {
	case s.held != nil:
		in.heard, in.deaf = time.Now(), false
	case in.wasLive && !s.blind:
		silence := time.Since(in.heard)
		detail := fmt.Sprintf("no longer listens on its PORT %d (it did until %.0f s ago)", in.rec.Port, silence.Seconds())
		if s.detail != "" && s.detail != silentDetail(in.rec.Port) {
			detail += "; " + s.detail
		}
		s.detail, in.deaf = detail, silence >= deafFor
	}
	return s
}

func (h *Host) stirSlotLocked(in *instance) {
	if s := h.slots[in.slot()]; s != nil {
		s.stir()
	}
}
