package service

import (
	"fmt"
	"net/netip"
	"strings"
)

// Bounds of names, in bytes. A service's name leaves room for what is made
// of it: a revision's "-00001" and a tag's "TAG---" within a DNS label's 63.
const (
	MaxServiceName = 49
	maxLabel       = 63
	maxHostName    = 253
	tagSeparator   = "---"
	localDomain    = "localhost"
)

// CheckServiceName says why name cannot be a service's, or nil.
func CheckServiceName(name string) error {
	const hint = "use 1 to 49 lower-case letters, digits and single dashes, beginning and ending with a letter or digit, e.g. hello or web-shop"
	switch {
	case name == "":
		return refuse(hint, "a service needs a name")
	case len(name) > MaxServiceName:
		return refuse(hint, "service name %q is too long: it has %d characters, at most %d are allowed", name, len(name), MaxServiceName)
	case !isLabel(name):
		return refuse(hint, "service name %q is not a DNS label", name)
	case strings.Contains(name, tagSeparator):
		return refuse(hint, "service name %q contains %q, which separates a tag from a name", name, tagSeparator)
	}
	return nil
}

// CheckTag says why tag cannot be one of the service's tags, or nil.
func CheckTag(service, tag string) error {
	room := maxLabel - len(service) - len(tagSeparator)
	hint := fmt.Sprintf("use up to %d lower-case letters, digits and single dashes, e.g. blue", room)
	switch {
	case !isLabel(tag):
		return refuse(hint, "tag %q is not a DNS label", tag)
	case strings.Contains(tag, tagSeparator):
		return refuse(hint, "tag %q contains %q, which separates a tag from a name", tag, tagSeparator)
	case len(tag) > room:
		return refuse(hint, "tag %q is too long: %s would not fit into a DNS label", tag, tag+tagSeparator+service)
	}
	return nil
}

// isLabel says whether s is a DNS label in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// NormalizeHostName returns name in lower case without a final dot, or why it
// cannot lead to the service.
func NormalizeHostName(service, name string) (string, error) {
	const hint = "give a plain DNS name without scheme, port or path, e.g. shop.example.com"
	n := strings.TrimSuffix(strings.ToLower(name), ".")
	if n == "" || len(n) > maxHostName {
		return "", refuse(hint, "host name %q is not a DNS name", name)
	}
	if _, err := netip.ParseAddr(n); err == nil {
		return "", refuse(hint, "host name %q is an address, not a name", name)
	}
	labels := strings.Split(n, ".")
	for _, l := range labels {
		if !isLabel(l) {
			return "", refuse(hint, "host name %q is not a DNS name: %q is no label of one", name, l)
		}
	}
	if owner := localOwner(labels); owner != "" && owner != service {
		return "", refuse("every service has NAME."+localDomain+" of its own: give the name of another domain",
			"host name %q belongs to the service named %s", name, owner)
	}
	if strings.Contains(labels[0], tagSeparator) {
		return "", refuse("give the revision a tag instead: --tag", "host name %q is that of a tag", name)
	}
	return n, nil
}

// localOwner is the service whose NAME.localhost a name is or lies under.
func localOwner(labels []string) string {
	n := len(labels)
	if n < 2 || labels[n-1] != localDomain {
		return ""
	}
	_, name, tagged := strings.Cut(labels[n-2], tagSeparator)
	if tagged {
		return name
	}
	return labels[n-2]
}

// LocalHost is the host name that every service has.
func LocalHost(service string) string { return service + "." + localDomain }

// TagHost is the host name by which a tagged revision alone is reached.
func TagHost(tag, host string) string { return tag + tagSeparator + host }

// HostsOf are all host names that lead to the service, its own first.
func (d Desired) HostsOf() []string {
	return append([]string{LocalHost(d.Service)}, d.HostNames...)
}

// URL is where a host name is reached by a gateway that listens on port; a
// zero port is left out.
func URL(host string, port uint16) string {
	if port == 0 || port == 80 {
		return "http://" + host + "/"
	}
	return fmt.Sprintf("http://%s:%d/", host, port)
}
