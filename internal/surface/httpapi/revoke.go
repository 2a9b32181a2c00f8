package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

// givenCaller says that a caller's identity was given away.
type givenCaller struct {
	Name  string    `json:"name"`
	At    time.Time `json:"at"` // the last time
	By    string    `json:"by,omitempty"`
	Times uint32    `json:"times"`
}

// revoked says that an identity is refused, for good.
type revoked struct {
	Role   identity.Role `json:"role"`
	Name   string        `json:"name"`
	At     time.Time     `json:"at"`
	By     string        `json:"by,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

func revokedKey(role identity.Role, name string) store.Key {
	return store.Key{Kind: service.KindRevoked, Name: string(role) + "." + name}
}

// giveCaller records that a caller is given its identity, before it has it. One
// that was given is given again only where that is asked for.
func (a *API) giveCaller(ctx context.Context, name string, again bool) error {
	if err := a.notRevoked(ctx, identity.Caller, name); err != nil {
		return err
	}
	rec, version, found, err := get[givenCaller](ctx, a.Store, service.KindCaller, name)
	if err != nil {
		return err
	}
	if found && !again {
		return fault.New(fault.Exists,
			"renew it where it is: fairlead identity renew FOLDER; give it to another key as well: --again; if the key is lost or stolen: fairlead identity revoke "+name+", and take another name",
			"the identity of caller %s was given already, on %s by %s", name, rec.At.UTC().Format("2006-01-02 15:04 UTC"), orSomebody(rec.By))
	}
	rec = givenCaller{Name: name, At: a.Now(), By: by(ctx, ""), Times: rec.Times + 1}
	body, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("cannot encode the record of a caller: %w", err)
	}
	err = a.apply(ctx, store.Apply{
		ID: a.NewID(), Checks: []store.Check{{Key: revokedKey(identity.Caller, name)}},
		Writes: []store.Write{{Key: store.Key{Kind: service.KindCaller, Name: name}, Expect: version, Body: body}},
	})
	if store.AsConflict(err) != nil {
		return fault.New(fault.Conflict, "look at fairlead identity list, and ask again", "the identity of caller %s is given or revoked by somebody else just now", name)
	}
	return err
}

func orSomebody(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}

// notRevoked says that an identity is refused, where it is.
func (a *API) notRevoked(ctx context.Context, role identity.Role, name string) error {
	rec, _, found, err := get[revoked](ctx, a.Store, service.KindRevoked, revokedKey(role, name).Name)
	if err != nil || !found {
		return err
	}
	return fault.New(fault.Forbidden, "take another name: one that was revoked is never given again",
		"the identity of %s %s was revoked on %s by %s", role, name, rec.At.UTC().Format("2006-01-02 15:04 UTC"), orSomebody(rec.By))
}

// mostReason bounds what is kept of why.
const mostReason = 500

// RevokeIdentity refuses an identity from now on.
func (a *API) RevokeIdentity(ctx context.Context, m *fairleadv1.RevokeIdentityRequest) (*fairleadv1.RevokeIdentityResponse, error) {
	subject := m.GetName()
	if m.GetRole() != "" {
		subject = m.GetRole() + "/" + subject
	}
	role, name, err := identity.ParseRevocable(subject)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "name a caller by its NAME, others by agent/NAME, relay/NAME or prober/NAME", err)
	}
	id := identity.ID{TrustDomain: a.Authority.TrustDomain(), Role: role, Name: name}
	body, err := json.Marshal(revoked{Role: role, Name: name, At: a.Now(), By: by(ctx, ""), Reason: cut(m.GetReason(), mostReason)})
	if err != nil {
		return nil, fmt.Errorf("cannot encode a revocation: %w", err)
	}
	key := revokedKey(role, name)
	err = a.apply(ctx, store.Apply{ID: a.NewID(), Writes: []store.Write{{Key: key, Body: body}}, Essential: true})
	if store.AsConflict(err) != nil {
		err = nil // it was revoked before: that is what is asked for
	}
	if err != nil {
		return nil, err
	}
	if err := a.LoadRefusals(ctx); err != nil {
		a.Log.Warn("a revocation is in force within a second, and not yet", "identity", id.String(), "error", err)
	}
	a.Log.Info("an identity was revoked", "identity", id.String(), "by", by(ctx, ""))
	return &fairleadv1.RevokeIdentityResponse{Identity: id.String()}, nil
}

// LoadRefusals has the refusal list be what the store says.
func (a *API) LoadRefusals(ctx context.Context) error {
	if a.Refusals == nil {
		return nil
	}
	a.refusing.Lock() // so that none is replaced by an older one
	defer a.refusing.Unlock()
	docs, _, err := a.Store.List(ctx, service.KindRevoked)
	if err != nil {
		return err
	}
	names := make([]string, len(docs)) // by the keys: a body that cannot be read lets nobody in
	for i, d := range docs {
		names[i] = strings.Replace(d.Name, ".", "/", 1)
	}
	a.Refusals.Set(names)
	return nil
}

// ListIdentities is of callers' identities, and of all that were revoked.
func (a *API) ListIdentities(ctx context.Context) (*fairleadv1.ListIdentitiesResponse, error) {
	given, _, err := list[givenCaller](ctx, a.Store, service.KindCaller, nil)
	if err != nil {
		return nil, err
	}
	refused, _, err := list[revoked](ctx, a.Store, service.KindRevoked, nil)
	if err != nil {
		return nil, err
	}
	all := map[string]*fairleadv1.GivenIdentity{} // :: ROLE/NAME → it
	of := func(role identity.Role, name string) *fairleadv1.GivenIdentity {
		key := string(role) + "/" + name
		if all[key] == nil {
			all[key] = &fairleadv1.GivenIdentity{Role: string(role), Name: name}
		}
		return all[key]
	}
	for _, g := range given {
		x := of(identity.Caller, g.Name)
		x.Given, x.GivenBy, x.Times = timestamppb.New(g.At), g.By, g.Times
	}
	for _, r := range refused {
		x := of(r.Role, r.Name)
		x.Revoked, x.RevokedBy, x.Reason = timestamppb.New(r.At), r.By, r.Reason
	}
	resp := &fairleadv1.ListIdentitiesResponse{}
	for _, x := range all {
		resp.Identities = append(resp.Identities, x)
	}
	slices.SortFunc(resp.Identities, func(x, y *fairleadv1.GivenIdentity) int {
		return strings.Compare(x.GetRole()+"/"+x.GetName(), y.GetRole()+"/"+y.GetName())
	})
	return resp, nil
}

// FollowRefusals tells a relay who is refused.
func (i identityGRPC) FollowRefusals(_ *fairleadv1.FollowRefusalsRequest, s grpc.ServerStreamingServer[fairleadv1.FollowRefusalsResponse]) error {
	if i.api.Refusals == nil {
		return fault.ToGRPC(fault.New(fault.Unavailable, "", "this control keeps no refusal list"))
	}
	for {
		refused, changed := i.api.Refusals.List()
		if err := s.Send(&fairleadv1.FollowRefusalsResponse{Refused: refused}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}
