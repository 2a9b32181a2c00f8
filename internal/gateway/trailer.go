package gateway

import (
	"net/http"
	"strings"
)

// trails says whether a field may follow a body: what frames a message, routes
// it, says who sends it or how it is to be read must stand in its head, since a
// receiver may put trailers among the fields of the head (RFC 9110, 6.5.1).
func trails(key string) bool {
	switch key {
	case "Host", "Authorization", "Www-Authenticate", "Cookie", "Set-Cookie", "Expect", "Range", "Max-Forwards", "Cache-Control", "Pragma",
		"Forwarded", "X-Request-Id", "X-Real-Ip":
		return false
	}
	for _, family := range []string{"Content-", "If-", "X-Forwarded-", "Fairlead-"} {
		if strings.HasPrefix(key, family) {
			return false
		}
	}
	return !hopByHop(key)
}

// trailing are the names of the caller's trailers that an instance is given, in
// order, whether they were declared or, known once the body is read, were not.
func (b *body) trailing() []string {
	var keys []string
	for _, k := range sortedKeys(b.trailer) {
		if trails(k) && !b.hop[k] {
			keys = append(keys, k)
		}
	}
	return keys
}

// takeTrailers notes what may follow the request's body.
func (b *body) takeTrailers(r *http.Request) {
	b.trailer, b.hop = r.Trailer, listed(r.Header["Connection"])
	b.declared = strings.Join(b.trailing(), ", ")
}
