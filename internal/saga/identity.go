package saga

import (
	"cmp"
	"strings"
)

// Identity of one saga: whose it is, what it is about, and when it was minted,
// an instant plus a random part, so that a name used again in another life
// never meets the record of the first.
type Identity struct {
	Owner   string // without dots, e.g. a service
	Kind    string
	Subject string // e.g. a revision; empty when it is about the owner
	Minted  string // a ULID
}

// String is OWNER.KIND.SUBJECT.MINTED, with "-" for an empty subject.
func (i Identity) String() string {
	return i.Owner + "." + i.Kind + "." + cmp.Or(i.Subject, "-") + "." + i.Minted
}

// OwnerOf reads the owner from an identity, so that even a record that cannot
// be read has one.
func OwnerOf(id string) string {
	owner, _, _ := strings.Cut(id, ".")
	return owner
}
