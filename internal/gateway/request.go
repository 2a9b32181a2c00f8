package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// prepare looks at what will be sent. False means that the request was answered.
func (x *exchange) prepare() bool {
	r := x.r
	if r.Method == http.MethodConnect {
		x.fail(http.StatusMethodNotAllowed, "bad-request", "method CONNECT is not proxied")
		return false
	}
	x.id = r.Header.Get("X-Request-Id")
	if x.id == "" {
		x.id = newID()
	}
	for _, v := range r.Header["Connection"] {
		if hasToken(v, "upgrade") && r.ContentLength == 0 {
			x.upgrade = offered(r.Header["Upgrade"])
		}
	}
	return x.prepareBody(x.expects())
}

// expects says that the caller waits to be asked for its body.
func (x *exchange) expects() bool {
	return x.r.ContentLength != 0 && strings.EqualFold(x.r.Header.Get("Expect"), "100-continue")
}

func newID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// writeHead writes the head of the request into the connection's buffer, which
// may spill to the instance.
func (x *exchange) writeHead(c *conn) {
	r, w := x.r, c.bw
	w.WriteString(r.Method)
	w.WriteByte(' ')
	if strings.HasPrefix(r.RequestURI, "/") || r.RequestURI == "*" {
		w.WriteString(r.RequestURI)
	} else { // the absolute form, which is for proxies
		w.WriteString(r.URL.RequestURI())
	}
	w.WriteString(" HTTP/1.1\r\n")
	writeField(w, "Host", r.Host)
	drop := listed(r.Header["Connection"])
	for k, vs := range r.Header {
		switch k {
		case "X-Forwarded-For", "X-Request-Id", "Content-Length":
			continue
		}
		if hopByHop(k) || drop[k] && !ours(k) {
			continue
		}
		for _, v := range vs {
			writeField(w, k, v)
		}
	}
	x.writeForwarded(c)
	x.writeFraming(c)
	w.WriteString("\r\n")
}

// ours says that a field is this gateway's to give an instance, so that no
// caller can have it left out by declaring it a field of one hop.
func ours(key string) bool {
	switch key {
	case "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id":
		return true
	}
	return false
}

func (x *exchange) writeForwarded(c *conn) {
	r, w := x.r, c.bw
	ip := r.RemoteAddr
	if i := strings.LastIndexByte(ip, ':'); i >= 0 {
		ip = strings.Trim(ip[:i], "[]")
	}
	w.WriteString("X-Forwarded-For: ")
	for _, v := range r.Header["X-Forwarded-For"] {
		if v != "" {
			w.WriteString(v)
			w.WriteString(", ")
		}
	}
	w.WriteString(ip)
	w.WriteString("\r\n")
	if len(r.Header["X-Forwarded-Host"]) == 0 {
		writeField(w, "X-Forwarded-Host", r.Host)
	}
	if len(r.Header["X-Forwarded-Proto"]) == 0 {
		proto := "http"
		if r.TLS != nil {
			proto = "https"
		}
		writeField(w, "X-Forwarded-Proto", proto)
	}
	writeField(w, "X-Request-Id", x.id)
}

// writeFraming says how the body ends, and what else is meant for the next hop.
func (x *exchange) writeFraming(c *conn) {
	r, w := x.r, c.bw
	switch {
	case x.body.size < 0:
		w.WriteString("Transfer-Encoding: chunked\r\n")
		if x.body.declared != "" {
			writeField(w, "Trailer", x.body.declared)
		}
	case x.body.size > 0 || len(r.Header["Content-Length"]) > 0:
		var num [20]byte
		w.WriteString("Content-Length: ")
		w.Write(strconv.AppendInt(num[:0], x.body.size, 10))
		w.WriteString("\r\n")
	}
	for _, v := range r.Header["Te"] {
		if hasToken(v, "trailers") {
			w.WriteString("Te: trailers\r\n")
			break
		}
	}
	if x.upgrade != "" {
		w.WriteString("Connection: Upgrade\r\n")
		writeField(w, "Upgrade", x.upgrade)
	}
}

// idempotent says that the request may be executed twice.
func (x *exchange) idempotent() bool {
	switch x.r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return x.svc.limits.Idempotent
}

func (x *exchange) remaining() time.Duration { return time.Until(x.by) }
