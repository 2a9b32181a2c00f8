package gateway

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// statusHungUp stands in metrics and logs for a caller that did not wait.
const statusHungUp = 499

// errorHeader names the code of an answer that the gateway itself gives.
const errorHeader = "Fairlead-Error"

// knownShown bounds the host names that a 404 names.
const knownShown = 20

// fail answers with one line of plain text. Where something of a response went
// to the caller already, the connection is cut instead.
func (x *exchange) fail(status int, code, text string) {
	x.status = status
	if x.forwarded {
		panic(http.ErrAbortHandler)
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text) + "\n"
	h := x.w.Header()
	if x.id != "" {
		h["X-Request-Id"] = []string{x.id}
	}
	h[errorHeader] = []string{code}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		// A caller that does not take the answer has hung up: nothing is left to tell.
		_, _ = x.w.Write([]byte(text))
	}
}

// unknownHost tells a caller which hosts there are, and how to reach one.
func unknownHost(ix *index, r *http.Request) string {
	text := fmt.Sprintf("no service has the host name %.255q here", cleanHost(r.Host))
	if len(ix.known) == 0 {
		return text + "; none is known yet"
	}
	shown := ix.known[:min(len(ix.known), knownShown)]
	text += "; known are " + strings.Join(shown, ", ")
	if more := len(ix.known) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	at := "ADDRESS"
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		at = a.String()
	}
	return text + fmt.Sprintf("; try: curl -H 'Host: %s' http://%s/", ix.known[0], at)
}

// attrs of the access log.
func (x *exchange) attrs(took time.Duration) []slog.Attr {
	a := []slog.Attr{
		slog.String("method", x.r.Method), slog.String("host", x.r.Host), slog.String("path", x.r.URL.Path),
		slog.Int("status", x.status), slog.Duration("took", took), slog.String("id", x.id),
	}
	if x.svc != nil {
		a = append(a, slog.String("service", x.svc.name), slog.String("group", x.group))
	}
	if in := x.ticket.inst; in != nil {
		a = append(a, slog.String("instance", in.ID), slog.String("revision", in.Revision), slog.String("table", x.ticket.rules.Text))
	}
	return a
}
