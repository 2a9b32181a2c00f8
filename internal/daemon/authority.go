package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// trustKey is the record of the authority that a shared store is led under:
// controls of two authorities would each refuse whom the other let in.
var trustKey = store.Key{Kind: service.KindLeader, Name: "authority"}

type trustRecord struct {
	Fingerprint string    `json:"fingerprint"`
	Since       time.Time `json:"since"`
}

// openAuthority opens the authority, or makes it where none is known yet. One
// that the store is not led under is refused before anything is made.
func (c *controlRole) openAuthority(ctx context.Context) error {
	folder := orFolder(c.plane.Authority, c.p.Data, dirAuthority)
	record, stands, err := c.trustRecord(ctx)
	if err != nil {
		return err
	}
	made, err := identity.HasAuthority(folder)
	if err != nil {
		return fmt.Errorf("cannot look for the authority: %w", err)
	}
	if !made && stands.Version != 0 && !c.plane.NewAuthority {
		return foreignAuthority(folder, "holds no authority", record)
	}
	c.authority, err = identity.OpenAuthority(folder, identity.AuthorityOptions{Shared: c.shared()})
	if err != nil || !c.shared() || c.authority.Fingerprint() == record.Fingerprint {
		return err
	}
	if stands.Version == 0 || c.plane.NewAuthority {
		err = c.claim(ctx, stands.Version)
	} else {
		err = foreignAuthority(folder, "holds another authority", record)
	}
	if err != nil {
		return errors.Join(err, c.authority.Close())
	}
	return nil
}

func foreignAuthority(folder, what string, r trustRecord) error {
	return fault.New(fault.Invalid, "copy the authority folder of a control of that store there, or name it by --authority; if it is lost for good: --new-authority, and every role joins again by a new token",
		"%s %s: the store is led under the authority %s since %s", folder, what, r.Fingerprint, r.Since.Format(time.RFC3339))
}

// trustRecord reads the authority that the store is led under; of version zero
// where none is recorded, or where nobody else can lead.
func (c *controlRole) trustRecord(ctx context.Context) (trustRecord, store.Document, error) {
	var r trustRecord
	if !c.shared() {
		return r, store.Document{}, nil
	}
	d, err := c.store.Get(ctx, trustKey)
	if errors.Is(err, store.ErrNotFound) {
		return r, store.Document{}, nil
	}
	if err == nil {
		err = json.Unmarshal(d.Body, &r)
	}
	if err != nil {
		return r, d, fmt.Errorf("cannot read %s: %w", trustKey, err)
	}
	return r, d, nil
}

// claim records the authority, bound to what stood. Of two first controls that
// start at once, one is told that the other was quicker.
func (c *controlRole) claim(ctx context.Context, stood uint64) error {
	body, err := json.Marshal(trustRecord{Fingerprint: c.authority.Fingerprint(), Since: time.Now()})
	if err != nil {
		return err
	}
	a := store.Apply{ID: newID(), Writes: []store.Write{{Key: trustKey, Expect: stood, Body: body}}}
	for {
		_, err = c.store.Apply(ctx, a)
		if !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrGone) || !sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	if conflict := store.AsConflict(err); conflict != nil {
		var other trustRecord
		if json.Unmarshal(conflict.Stands.Body, &other) == nil && other.Fingerprint == c.authority.Fingerprint() {
			return nil // by another control that has the same
		}
		return fault.New(fault.Conflict, "copy the authority folder of that one here, or name it by --authority, and start again", "another control has recorded its authority meanwhile")
	}
	if err != nil {
		return fmt.Errorf("cannot record the authority: %w", err)
	}
	return nil
}

// openIdentity gives control its identity and the operator a credential.
func (c *controlRole) openIdentity(api string) error {
	var err error
	if c.keys, err = openKeys(c.p, filepath.Join(c.p.Data, dirControl), identity.Control, true); err != nil {
		return err
	}
	return c.issue(api)
}

// issue renews what the authority's own process has of it. It does nothing
// while that is good.
func (c *controlRole) issue(api string) error {
	id := identity.ID{TrustDomain: c.authority.TrustDomain(), Role: identity.Control, Name: "control"}
	print, err := c.keys.Fingerprint()
	if err != nil || print != c.authority.Fingerprint() || time.Now().After(c.keys.RenewAt()) {
		host, _, err := net.SplitHostPort(api)
		if err != nil {
			return fault.New(fault.Invalid, "give HOST:PORT by --api", "%q is not an address to listen on: %w", api, err)
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			host = ""
		}
		if err := c.authority.Issue(c.keys, id, identity.WithHosts(host)); err != nil {
			return err
		}
	}
	return identity.WriteOperatorCredential(c.authority, c.p.Data, operatorName())
}

// operatorName is who runs this process.
func operatorName() string {
	if u, err := user.Current(); err == nil && identity.CheckName(u.Username) == nil {
		return u.Username
	}
	return fmt.Sprintf("uid-%d", os.Getuid())
}
