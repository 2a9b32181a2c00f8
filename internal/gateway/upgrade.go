package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// offered are the protocols that an instance may be asked to change to. HTTP/2
// is spoken with neither side, so that nobody is asked for it.
func offered(upgrade []string) string {
	var out []string
	for part := range strings.SplitSeq(strings.Join(upgrade, ","), ",") {
		if p := textproto.TrimString(part); p != "" && !strings.EqualFold(p, "h2c") {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}

// mayBecome says that a response names a protocol, and none but what was asked for.
func (x *exchange) mayBecome(upgrade []string) bool {
	named := false
	for part := range strings.SplitSeq(strings.Join(upgrade, ","), ",") {
		p := textproto.TrimString(part)
		if p == "" {
			continue
		}
		if !hasToken(x.upgrade, p) {
			return false
		}
		named = true
	}
	return named
}

// switchProtocols forwards a 101 and joins the two connections. The lease lasts
// until both directions have ended.
func (a *attempt) switchProtocols(h head) error {
	x, c := a.x, a.c
	if to := h.header["Upgrade"]; !x.mayBecome(to) {
		return fmt.Errorf("%w: it switched to %q, and %q was asked for", errMalformed, strings.Join(to, ", "), x.upgrade)
	}
	hj, ok := x.w.(http.Hijacker)
	if !ok || !x.end.release() {
		return errInstanceGone
	}
	x.leave() // nobody watches from here on
	_, rw, err := hj.Hijack()
	if err != nil {
		return fmt.Errorf("cannot take over the caller's connection: %w", err)
	}
	caller, err := x.caller.take()
	if err != nil {
		return nil // the caller is gone
	}
	defer caller.Close()
	if !x.g.upgrades.add(caller) {
		return nil
	}
	defer x.g.upgrades.remove(caller)
	// What was due was the first byte; from here on both ends take their time.
	instance, err := c.tcp.plain()
	if err != nil {
		return nil
	}
	x.forwarded, x.status = true, h.status
	to := http.Header{}
	x.copyHeader(to, h.header)
	a.mark(to)
	rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n")
	writeField(rw.Writer, "Upgrade", strings.Join(h.header["Upgrade"], ", "))
	if err := to.Write(rw); err != nil {
		return nil // the caller is gone
	}
	rw.WriteString("\r\n")
	if n := c.br.Buffered(); n > 0 {
		b, _ := c.br.Peek(n)
		rw.Write(b)
	}
	if rw.Flush() != nil {
		return nil
	}
	if n := rw.Reader.Buffered(); n > 0 {
		b, _ := rw.Reader.Peek(n)
		if _, err := c.Write(b); err != nil {
			return nil
		}
	}
	x.g.splice(caller, instance, c)
	return nil
}

// splice copies both ways until both directions have ended, or one has and the
// other is idle too long after it.
func (g *Gateway) splice(caller, instance *net.TCPConn, c *conn) {
	c.pool.joined.Add(1)
	defer func() {
		c.pool.heard.Add(1) // who knows
		c.pool.joined.Add(-1)
	}()
	ended := make(chan struct{}, 2)
	for _, d := range [2]struct{ to, from *net.TCPConn }{{instance, caller}, {caller, instance}} {
		go func() {
			// An error ends the direction as its end does; there is nobody to tell.
			_, _ = io.Copy(d.to, d.from)
			_ = d.to.CloseWrite()
			ended <- struct{}{}
		}()
	}
	<-ended
	linger := time.NewTimer(upgradeLinger)
	defer linger.Stop()
	select {
	case <-ended:
		caller.Close()
		c.Close()
	case <-linger.C:
		caller.Close()
		c.Close()
		<-ended
	}
}
