package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-platform/fairlead/internal/credential"
	"github.com/fairlead-platform/fairlead/internal/outage"
)

// Issuing is where a host has the identities of what it runs from.
type Issuing struct {
	// Issue has a request signed for a service that was assigned to this host;
	// nil gives instances no identity.
	Issue func(ctx context.Context, service string, csrPEM []byte) (certPEM, bundlePEM []byte, err error)
	// Bundle is the authorities that the host itself trusts, in PEM: identities
	// of others are replaced. Nil does not ask.
	Bundle func() ([]byte, error)
}

const (
	envIdentity = "FAIRLEAD_IDENTITY" // folder with the service's identity
	envPlane    = "FAIRLEAD_PLANE"    // addresses to hold views from
	envZone     = "FAIRLEAD_ZONE"

	dirIdentities = "identities" // in the host's folder, one for each service
	dirIdentity   = "identity"   // in an instance's

	// firstIdentity is how long a start waits for an identity that the host has
	// not yet, where it hears control.
	firstIdentity = 2 * time.Second
	issueTimeout  = 10 * time.Second
)

// identities are those of the services that run here. The host has each in a
// folder of its own, so that an instance that starts while control is away has
// it too, and lends each instance a copy, which it replaces when it is renewed.
// One that cannot be had keeps nothing from running.
type identities struct {
	h    *Host
	mu   sync.Mutex // one issue at a time
	away outage.Outage
}

func (i *identities) folder(service string) string { return i.h.folder.path(dirIdentities, service) }

func (i *identities) none() bool { return i.h.cfg.Identities.Issue == nil }

// lend gives a new instance the identity of its service, as far as there is one.
func (i *identities) lend(in *instance, user *account) {
	if i.none() {
		return
	}
	service := in.rec.Assignment.Service
	if there, err := credential.Exists(i.folder(service)); err == nil && !there && i.h.leader.Load() != nil {
		ctx, cancel := context.WithTimeout(i.h.ctx, firstIdentity)
		i.renew(ctx, service)
		cancel()
	}
	err := i.copyTo(in, user)
	if errors.Is(err, credential.ErrNone) { // it may look for it there
		err = os.Mkdir(in.identity(), 0o711)
	}
	if err != nil {
		i.h.log.Warn("an instance is without an identity", "instance", in.rec.ID, "error", err)
	}
}

func (i *identities) copyTo(in *instance, user *account) error {
	files, err := credential.Load(i.folder(in.rec.Assignment.Service))
	if err != nil || in.rec.Folder == "" {
		return err
	}
	files.Managed = true
	if user != nil {
		files.Owner = &credential.Owner{UID: int(user.cred.Uid), GID: int(user.cred.Gid)}
	}
	return files.Write(in.identity())
}

// identity is the instance's folder of that name.
func (in *instance) identity() string { return in.rec.Folder + "/" + dirIdentity }

// keep has what is missing or due issued, until the host lets go.
func (i *identities) keep() {
	if i.none() {
		return
	}
	for sleep(i.h.ctx, i.h.cfg.Timing.Identities) {
		running := i.running()
		for service, all := range running {
			if !i.due(service) {
				continue
			}
			ctx, cancel := context.WithTimeout(i.h.ctx, issueTimeout)
			renewed := i.renew(ctx, service)
			cancel()
			if renewed {
				i.handOut(all)
			}
		}
		i.forget(running)
	}
}

// running are the instances here, by service.
func (i *identities) running() map[string][]*instance {
	i.h.mu.Lock()
	defer i.h.mu.Unlock()
	out := map[string][]*instance{}
	for _, s := range i.h.slots {
		if name := s.rec.Assignment.Service; out[name] == nil {
			out[name] = []*instance{}
		}
	}
	for _, in := range i.h.instances {
		if in.runs() {
			out[in.rec.Assignment.Service] = append(out[in.rec.Assignment.Service], in)
		}
	}
	return out
}

// due: there is none, a third of its life is over, or it is of an authority
// that is not the host's any more.
func (i *identities) due(service string) bool {
	f, err := credential.Open(i.folder(service))
	return err != nil || time.Now().After(f.RenewAt()) || i.foreign(service)
}

func (i *identities) foreign(service string) bool {
	if i.h.cfg.Identities.Bundle == nil {
		return false
	}
	mine, err := i.h.cfg.Identities.Bundle()
	if err != nil {
		return false // the host itself is nobody now
	}
	files, err := credential.Load(i.folder(service))
	return err == nil && !bytes.Equal(bytes.TrimSpace(files.Bundle), bytes.TrimSpace(mine))
}

// renew has the identity of a service issued, whether or not there is one. It
// says whether it was.
func (i *identities) renew(ctx context.Context, service string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.due(service) {
		return false // another has just been here
	}
	err := i.issue(ctx, service)
	switch {
	case err == nil:
		i.away.Back(time.Now())
		return true
	case i.h.ctx.Err() == nil && i.away.Failed(time.Now()):
		i.h.log.Warn("an identity is not to be had; what runs goes on", "service", service, "error", err, "for", i.away.For(time.Now()).Round(time.Second))
	}
	return false
}

func (i *identities) issue(ctx context.Context, service string) error {
	key, err := credential.NewKey()
	if err != nil {
		return err
	}
	csr, err := key.Request()
	if err != nil {
		return err
	}
	cert, bundle, err := i.h.cfg.Identities.Issue(ctx, service, csr)
	if err != nil {
		return err
	}
	// The key is a new one each time, and replaced first: one that does not fit
	// the certificate beside it is due at once.
	return credential.Files{Key: key.PEM, Cert: cert, Bundle: bundle}.Write(i.folder(service))
}

// handOut replaces the copies that instances have.
func (i *identities) handOut(all []*instance) {
	for _, in := range all {
		user, err := accountOf(in.rec.Assignment.Template.User)
		if err == nil {
			err = i.copyTo(in, user)
		}
		if err != nil {
			i.h.log.Warn("an instance has no new identity", "instance", in.rec.ID, "error", err)
		}
	}
}

// forget removes the identities of services that have nothing here any more.
func (i *identities) forget(running map[string][]*instance) {
	entries, err := os.ReadDir(i.h.folder.path(dirIdentities))
	if err != nil {
		return // nothing was issued yet
	}
	for _, e := range entries {
		if running[e.Name()] == nil && !strings.HasPrefix(e.Name(), ".") {
			if err := removeTree(i.folder(e.Name())); err != nil {
				i.h.log.Warn("an identity that is of no use is left", "service", e.Name(), "error", err)
			}
		}
	}
}
