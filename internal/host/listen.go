package host

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// listener is one listening TCP socket of the machine.
type listener struct {
	addr  netip.AddrPort
	inode uint64
}

// parseListeners reads /proc/net/tcp or tcp6. The kernel lists listening
// sockets first, so it stops at the first one that is not: on a busy gateway
// the rest is long. Lines that cannot be read are passed over.
func parseListeners(r io.Reader) ([]listener, error) {
	var out []listener
	lines := bufio.NewScanner(r)
	for first := true; lines.Scan(); first = false {
		f := strings.Fields(lines.Text())
		if first || len(f) < 10 {
			continue
		}
		if f[3] != "0A" {
			break
		}
		addr, ok := parseHexAddr(f[1])
		inode, err := strconv.ParseUint(f[9], 10, 64)
		if ok && err == nil {
			out = append(out, listener{addr, inode})
		}
	}
	return out, lines.Err()
}

// parseHexAddr reads "0100007F:1F90": words in the machine's order (little
// endian), the port in plain hexadecimal.
func parseHexAddr(s string) (netip.AddrPort, bool) {
	host, portText, ok := strings.Cut(s, ":")
	if !ok {
		return netip.AddrPort{}, false
	}
	b, err := hex.DecodeString(host)
	port, perr := strconv.ParseUint(portText, 16, 16)
	if err != nil || perr != nil || (len(b) != 4 && len(b) != 16) {
		return netip.AddrPort{}, false
	}
	for w := 0; w < len(b); w += 4 {
		slices.Reverse(b[w : w+4])
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), true
}

// reach is what an instance's own listening sockets say about its address.
type reach int

const (
	reachNo    reach = iota // not at its address
	reachYes                // at its address
	reachMaybe              // on [::], which may or may not take IPv4: to be dialled
)

// judgeListeners compares what a session listens on with the address that
// gateways are told. The detail is for people, empty when reached.
func judgeListeners(own []netip.AddrPort, want netip.AddrPort) (reach, string) {
	var best reach
	var near, far []string
	for _, a := range own {
		if a.Port() != want.Port() {
			far = append(far, a.String())
			continue
		}
		switch {
		case a.Addr() == want.Addr() || (a.Addr().Is4() && a.Addr().IsUnspecified() && want.Addr().Is4()):
			return reachYes, ""
		case a.Addr().Is6() && a.Addr().IsUnspecified():
			if want.Addr().Is6() {
				return reachYes, ""
			}
			best = reachMaybe
		}
		near = append(near, a.String())
	}
	switch {
	case best == reachMaybe:
		return reachMaybe, ""
	case len(near) > 0:
		return reachNo, fmt.Sprintf("listens on %s only; bind to %s or %s", list(near), wildcard(want.Addr()), want.Addr())
	case len(far) > 0:
		return reachNo, fmt.Sprintf("listens on %s, not on its PORT %d: let it listen on $PORT, or pass '$(PORT)' in single quotes", list(far), want.Port())
	default:
		return reachNo, silentDetail(int(want.Port()))
	}
}

func silentDetail(port int) string { return fmt.Sprintf("does not listen on its PORT %d yet", port) }

func wildcard(a netip.Addr) string {
	if a.Is6() {
		return "[::]"
	}
	return "0.0.0.0"
}

func list(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
