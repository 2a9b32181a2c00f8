package gateway

import (
	"fmt"
	"strings"
)

// Suffix of the name under which every service is reached on one's own machine.
const localSuffix = ".localhost"

// tagMark stands between a tag and a host name: TAG---HOST.
const tagMark = "---"

// cleanHost brings a Host header to the form of the index: lower case, without
// port or trailing dot. It does not allocate where nothing must be changed but
// the length.
func cleanHost(h string) string {
	if strings.HasPrefix(h, "[") { // an IPv6 literal
		if i := strings.IndexByte(h, ']'); i > 0 {
			h = h[:i+1]
		}
	} else if i := strings.LastIndexByte(h, ':'); i >= 0 {
		h = h[:i]
	}
	h = strings.TrimSuffix(h, ".")
	for i := range len(h) {
		if c := h[i]; 'A' <= c && c <= 'Z' {
			return strings.ToLower(h)
		}
	}
	return h
}

// checkHost says why h cannot be declared as a host name.
func checkHost(h string) error {
	switch {
	case h == "":
		return fmt.Errorf("host name is empty")
	case len(h) > 253:
		return fmt.Errorf("host name %.40q… is longer than 253 bytes", h)
	case cleanHost(h) != h:
		return fmt.Errorf("host name %q is not lower case without port and trailing dot", h)
	case strings.Contains(h, tagMark):
		return fmt.Errorf("host name %q contains %q, which marks tags", h, tagMark)
	}
	for label := range strings.SplitSeq(h, ".") {
		if err := checkLabel(label); err != nil {
			return fmt.Errorf("host name %q: %w", h, err)
		}
	}
	return nil
}

// checkLabel holds a name to the rules of a DNS label.
func checkLabel(s string) error {
	if s == "" || len(s) > 63 {
		return fmt.Errorf("label %.40q must have 1 to 63 bytes", s)
	}
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !letter && (c != '-' || i == 0 || i == len(s)-1) {
			return fmt.Errorf("label %q may hold a-z, 0-9 and, inside, -", s)
		}
	}
	return nil
}
