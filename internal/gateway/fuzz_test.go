package gateway

import (
	"bufio"
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/view"
)

func FuzzCleanHost(f *testing.F) {
	for _, s := range []string{"", "a", "A.b:80", "a.localhost.", "[::1]:80", "[", ":", "...", "a:b:c", "T---A.B.:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := cleanHost(s)
		if len(h) > len(s)*3 {
			t.Errorf("%q became %q", s, h)
		}
		if checkHost(h) == nil {
			if cleanHost(h) != h || cleanHost(strings.ToUpper(h)+".:8080") != h {
				t.Errorf("%q, clean as %q, does not stay so", s, h)
			}
		}
	})
}

func FuzzReadHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.0 304 \r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 103 Hints\nLink: a\n b\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &conn{budget: -1, br: bufio.NewReader(bytes.NewReader(b))}
		c.text.R = c.br
		h, err := c.readHead()
		if err != nil {
			return
		}
		if h.status < 100 || h.status > 999 {
			t.Errorf("status %d", h.status)
		}
		if fr, err := h.framing("GET"); err == nil && fr.chunked && h.header.Get("Content-Length") != "" {
			t.Error("both chunked and of a length")
		}
	})
}

// Whatever a host says, what is held of it stays in order.
func FuzzPollMessages(f *testing.F) {
	add := func(ms ...*pb.PollRequest) {
		var b []byte
		for _, m := range ms {
			p, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			b = append(append(b, byte(len(p))), p...)
		}
		f.Add(b)
	}
	offer := &pb.PollRequest{Message: &pb.PollRequest_Offer{Offer: &pb.InstanceOffer{
		Instance: "a", Service: "s", Revision: "r", Group: "g", Address: "127.0.0.1:1", Grant: 3,
	}}}
	add(offer, &pb.PollRequest{Message: &pb.PollRequest_Recall{Recall: &pb.Recall{Instance: "a", Credits: 2}}})
	add(offer, &pb.PollRequest{Message: &pb.PollRequest_Terminating{Terminating: &pb.InstanceTerminating{Instance: "a"}}}, offer)
	add(offer, &pb.PollRequest{Message: &pb.PollRequest_Gone{Gone: &pb.InstanceGone{Instance: "a"}}}, offer)
	add(offer, &pb.PollRequest{Message: &pb.PollRequest_Synced{Synced: &pb.Synced{}}})
	f.Fuzz(func(t *testing.T, b []byte) {
		g := &Gateway{log: slog.New(slog.DiscardHandler), room: newRoom(newMetrics().of, nil, "")}
		g.room.apply(view.NewTable(view.Version{Incarnation: "7f"}, view.Epoch{}, []view.Route{
			{Service: "s", Splits: []view.Split{{Revision: "r", Percent: 100, Group: "g", Allowed: []string{"r"}}}},
		}))
		p := &pollServer{g: g}
		h, box := g.room.attach("h", &pb.PollWelcome{})
		for len(b) > 0 {
			n := min(int(b[0]), len(b)-1)
			m := &pb.PollRequest{}
			if proto.Unmarshal(b[1:1+n], m) == nil && !p.handle(h, box, m) {
				t.Fatal("the stream is not the present one")
			}
			b = b[1+n:]
			for _, s := range g.room.sums() {
				if s.credits < 0 || s.leases != 0 {
					t.Fatalf("%+v", s)
				}
			}
		}
		g.room.close()
		g.closing.Wait()
		box.take()
	})
}
