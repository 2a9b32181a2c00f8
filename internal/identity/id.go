// Package identity says who is at the other end of a socket, and what that
// peer may ask for there. It holds the built-in authority, join tokens, the
// keystore of a joined role, the TLS configurations of both ends, and the one
// table of access. It keeps nothing in the store: control keeps the token
// records there, through [TokenStore]. Read [ID], then [Keystore], then the
// table in access.go.
package identity

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// DefaultTrustDomain is the trust domain where none is configured.
const DefaultTrustDomain = "fairlead"

// Role is what a peer is, the second part of its identity.
type Role string

// The closed set of roles.
const (
	Control  Role = "control"
	Relay    Role = "relay"
	Gateway  Role = "gateway"
	Host     Role = "host"
	Prober   Role = "prober"
	Agent    Role = "agent"
	Operator Role = "operator" // a person or their tool
	Caller   Role = "caller"   // who calls services from outside our hosts
	Service  Role = "service"  // the instances of a service under one of our hosts
)

// Roles returns the closed set.
func Roles() []Role {
	return []Role{Control, Relay, Gateway, Host, Prober, Agent, Operator, Caller, Service}
}

// Known says whether r is one of the closed set.
func (r Role) Known() bool {
	for _, k := range Roles() {
		if r == k {
			return true
		}
	}
	return false
}

// ID is one identity: spiffe://<trust domain>/<role>/<name>.
type ID struct {
	TrustDomain string
	Role        Role
	// Name is unique within its role. It serves as a folder's name too.
	Name string
}

// A name begins with a letter or digit, so that it is never "." or "..", nor
// taken for a flag.
var nameRule = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// CheckName says why name cannot be the name of an identity, or nil.
func CheckName(name string) error {
	if !nameRule.MatchString(name) {
		return fmt.Errorf("name %q is not 1 to 128 letters, digits, dots, dashes and underscores beginning with a letter or digit", name)
	}
	return nil
}

// ParseID reads the form that [ID.String] writes, and nothing else.
func ParseID(s string) (ID, error) {
	sid, err := spiffeid.FromString(s)
	if err != nil {
		return ID{}, fmt.Errorf("cannot parse identity %q: %w", s, err)
	}
	role, name, ok := strings.Cut(strings.TrimPrefix(sid.Path(), "/"), "/")
	id := ID{TrustDomain: sid.TrustDomain().Name(), Role: Role(role), Name: name}
	if !ok {
		return ID{}, fmt.Errorf("cannot parse identity %q: it is not spiffe://<trust domain>/<role>/<name>", s)
	}
	if err := id.check(); err != nil {
		return ID{}, fmt.Errorf("cannot parse identity %q: %w", s, err)
	}
	return id, nil
}

// String is the SPIFFE ID.
func (id ID) String() string {
	return "spiffe://" + id.TrustDomain + "/" + string(id.Role) + "/" + id.Name
}

// IsZero says that this is nobody's identity.
func (id ID) IsZero() bool { return id == ID{} }

func (id ID) check() error {
	if !id.Role.Known() {
		return fmt.Errorf("role %q is not one of %v", string(id.Role), Roles())
	}
	if err := CheckName(id.Name); err != nil {
		return err
	}
	if _, err := spiffeid.TrustDomainFromString(id.TrustDomain); err != nil {
		return fmt.Errorf("trust domain %q: %w", id.TrustDomain, err)
	}
	return nil
}

func (id ID) trustDomain() (spiffeid.TrustDomain, error) {
	return spiffeid.TrustDomainFromString(id.TrustDomain)
}
