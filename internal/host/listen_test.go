package host

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

func TestAnInstanceIsToldWhatItListensOnInstead(t *testing.T) {
	for _, c := range []struct {
		own    string
		want   reach
		detail string
	}{
		{"127.0.0.1:20001", reachYes, ""},
		{"0.0.0.0:20001", reachYes, ""},
		{"0.0.0.0:8000 127.0.0.1:20001", reachYes, ""},
		{"[::]:20001", reachMaybe, ""},
		{"[::1]:20001", reachNo, "listens on [::1]:20001 only; bind to 0.0.0.0 or 127.0.0.1"},
		{"127.0.0.2:20001", reachNo, "listens on 127.0.0.2:20001 only; bind to 0.0.0.0 or 127.0.0.1"},
		{"127.0.0.1:8000", reachNo, "listens on 127.0.0.1:8000, not on its PORT 20001: let it listen on $PORT, or pass '$(PORT)' in single quotes"},
		{"0.0.0.0:9000 127.0.0.1:8000", reachNo, "listens on 0.0.0.0:9000, 127.0.0.1:8000, not on its PORT 20001: let it listen on $PORT, or pass '$(PORT)' in single quotes"},
		{"", reachNo, "does not listen on its PORT 20001 yet"},
	} {
		var own []netip.AddrPort
		for s := range strings.FieldsSeq(c.own) {
			own = append(own, netip.MustParseAddrPort(s))
		}
		got, detail := judgeListeners(own, netip.MustParseAddrPort("127.0.0.1:20001"))
		if got != c.want || detail != c.detail {
			t.Errorf("listening on %q: %v %q, want %v %q", c.own, got, detail, c.want, c.detail)
		}
	}
}

const procNetTCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 00000000:4E21 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 0100007F:4E21 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 20 4 30 10 -1
`

const procNetTCP6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:4E21 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4714 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:4E22 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4715 1 0000000000000000 100 0 0 10 0
`

func TestListeningSocketsAreReadFromProc(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{procNetTCP, "127.0.0.1:8080=4711 0.0.0.0:20001=4712"},
		{procNetTCP6, "[::1]:20001=4714 127.0.0.1:20002=4715"},
	} {
		got, err := parseListeners(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, l := range got {
			b.WriteString(l.addr.String() + "=" + itoa(l.inode) + " ")
		}
		if strings.TrimSpace(b.String()) != c.want {
			t.Errorf("read %q, want %q", b.String(), c.want)
		}
	}
}

func TestAnOpenConnectionIsSeen(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:20001": true, "127.0.0.1:8080": false, "127.0.0.1:50000": false} {
		if got := hasConnection(procNetTCP, netip.MustParseAddrPort(addr), established); got != want {
			t.Errorf("a connection to %s: %v, want %v", addr, got, want)
		}
	}
}

func itoa(n uint64) string {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

func FuzzListenersNeverPanic(f *testing.F) {
	f.Add([]byte(procNetTCP))
	f.Add([]byte(procNetTCP6))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseListeners(bytes.NewReader(b))
		for _, l := range got {
			if err == nil && !l.addr.IsValid() {
				t.Errorf("an invalid address was read from %q", b)
			}
		}
	})
}

func TestAProcessNameMayHoldAnything(t *testing.T) {
	p, err := parseStat("42 (we (ird) S 1) Z 1 42 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 0 0")
	if err != nil || p.pid != 42 || p.name != "we (ird) S 1" || p.session != 40 || p.start != 98765 || !p.ended() {
		t.Errorf("read %+v, %v", p, err)
	}
}

func FuzzProcessStateNeverPanics(f *testing.F) {
	f.Add("42 (we (ird) S 1) Z 1 42 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 0 0")
	f.Add(") (")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parseStat(s); err == nil && !strings.Contains(s, p.name) {
			t.Errorf("read the name %q from %q", p.name, s)
		}
	})
}
