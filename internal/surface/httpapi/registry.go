package httpapi

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/identity"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/wire"
)

// Registry takes in what nothing else watches; *discovery.Plane is one.
type Registry interface {
	Admits(discovery.Registration) error
	Register(ctx context.Context, r discovery.Registration) (instance string, err error)
	Renew(by, instance string, w service.Word) error
	Deregister(by, instance string) error
}

const (
	challengePath = "/.well-known/fairlead/"
	challengeFor  = 10 * time.Minute
	challengeWait = 5 * time.Second
	// mostChallenges are open at once; the oldest of who has most of them gives way.
	mostChallenges = 1000
)

// challenges are those that wait to be shown.
type challenges struct {
	mu   sync.Mutex
	open map[string]challenge // :: token → challenge
}

type challenge struct {
	of      discovery.Registration
	content string
	since   time.Time
}

// Register challenges the address, or enters the instance whose address showed
// what it was asked to.
func (a *API) Register(ctx context.Context, req *connect.Request[fairleadv1.RegisterRequest]) (*connect.Response[fairleadv1.RegisterResponse], error) {
	if a.Registry == nil {
		return nil, fault.New(fault.Unavailable, "", "nothing is registered here")
	}
	m := req.Msg
	who, err := registrant(ctx, req.Header())
	if err != nil {
		return nil, err
	}
	r := discovery.Registration{Service: m.GetService(), Address: m.GetAddress(), Zone: m.GetZone(), Revision: m.GetRevision(), By: who.String(), Of: ownService(who)}
	if err := service.CheckServiceName(r.Service); err != nil {
		return nil, err
	}
	if !hostPort(r.Address) {
		return nil, fault.New(fault.Invalid, "say HOST:PORT, as callers reach it", "%q is no address", r.Address)
	}
	if err := a.undeclared(ctx, r.Service); err != nil {
		return nil, err
	}
	if err := a.Registry.Admits(r); err != nil {
		return nil, err
	}
	if m.GetChallenge() == "" {
		return a.challenge(r)
	}
	c, err := a.shown(m.GetChallenge(), r)
	if err == nil {
		err = a.fetch(ctx, m.GetChallenge(), c)
	}
	if err != nil {
		return nil, err
	}
	id, err := a.Registry.Register(ctx, r)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.RegisterResponse{Instance: id, Lease: durationpb.New(discovery.Term())}), nil
}

// OnBehalf names the identity for which an operator asks: a control that stands
// by passes on what it was asked by whom it has let in.
const OnBehalf = "Fairlead-On-Behalf"

// registrant is who registers an instance, and alone may renew it.
func registrant(ctx context.Context, h http.Header) (identity.ID, error) {
	p := identity.PeerFromContext(ctx)
	said := h.Get(OnBehalf)
	if said == "" || p.ID.Role != identity.Operator {
		return p.ID, nil
	}
	id, err := identity.ParseID(said)
	if err != nil {
		return id, fault.Wrap(fault.Invalid, "", err)
	}
	return id, nil
}

// ownService is the only one that an identity may register instances of; empty
// is any.
func ownService(id identity.ID) string {
	if id.Role == identity.Operator {
		return ""
	}
	return id.Name
}

// challenge opens one. The content cannot be told from the path, so that an
// address which shows what it is asked for proves nothing by that.
func (a *API) challenge(r discovery.Registration) (*connect.Response[fairleadv1.RegisterResponse], error) {
	random := make([]byte, 32)
	if _, err := io.ReadFull(a.Rand, random); err != nil {
		return nil, fmt.Errorf("cannot make a challenge: %w", err)
	}
	token := hex.EncodeToString(random[:16])
	c := challenge{of: r, content: hex.EncodeToString(random[16:]), since: a.Now()}
	a.challenges.mu.Lock()
	defer a.challenges.mu.Unlock()
	maps.DeleteFunc(a.challenges.open, func(_ string, x challenge) bool { return a.Now().Sub(x.since) > challengeFor })
	if len(a.challenges.open) >= mostChallenges {
		a.challenges.giveWay()
	}
	a.challenges.open[token] = c
	return connect.NewResponse(&fairleadv1.RegisterResponse{Challenge: token, Path: challengePath + token, Content: c.content}), nil
}

func (c *challenges) giveWay() {
	of := map[string]int{} // :: registrant → open challenges
	for _, x := range c.open {
		of[x.of.By]++
	}
	victim := ""
	for t, x := range c.open {
		v := c.open[victim]
		if n := of[x.of.By] - of[v.of.By]; victim == "" || n > 0 || n == 0 && x.since.Before(v.since) {
			victim = t
		}
	}
	delete(c.open, victim)
}

// shown takes the challenge: it is asked for once.
func (a *API) shown(token string, r discovery.Registration) (challenge, error) {
	a.challenges.mu.Lock()
	defer a.challenges.mu.Unlock()
	c, open := a.challenges.open[token]
	if !open || c.of != r || a.Now().Sub(c.since) > challengeFor {
		return c, fault.New(fault.Invalid, "ask for one by registering without a challenge", "the challenge is not open for this registration")
	}
	delete(a.challenges.open, token)
	return c, nil
}

// fetch asks the address for what it is to show.
func (a *API) fetch(ctx context.Context, token string, c challenge) error {
	ctx, cancel := context.WithTimeout(ctx, challengeWait)
	defer cancel()
	failed := func(why string) error {
		return fault.New(fault.Invalid, "have the address answer GET "+challengePath+token+" with the content that was given, and register anew", "address %s does not show that it is yours: %s", c.of.Address, why)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.of.Address+challengePath+token, nil)
	if err != nil {
		return failed(err.Error())
	}
	req.Header.Set("User-Agent", "fairlead-registry")
	once := &http.Transport{DisableKeepAlives: true, Proxy: nil}
	resp, err := once.RoundTrip(req) // a redirection is no answer
	if err != nil {
		return failed("it does not answer")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	switch {
	case err != nil:
		return failed("its answer ends in the middle")
	case resp.StatusCode != http.StatusOK:
		return failed("it answers " + resp.Status)
	case subtle.ConstantTimeCompare(trimmed(body), []byte(c.content)) != 1:
		return failed("it answers with something else")
	}
	return nil
}

func trimmed(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}

// RenewLease gives a lease its full term anew.
func (a *API) RenewLease(ctx context.Context, req *connect.Request[fairleadv1.RenewLeaseRequest]) (*connect.Response[fairleadv1.RenewLeaseResponse], error) {
	if a.Registry == nil {
		return nil, fault.New(fault.Unavailable, "", "nothing is registered here")
	}
	who, err := registrant(ctx, req.Header())
	if err != nil {
		return nil, err
	}
	err = a.Registry.Renew(who.String(), req.Msg.GetInstance(), wire.Word(req.Msg.GetWord()))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.RenewLeaseResponse{Lease: durationpb.New(discovery.Term())}), nil
}

// Deregister ends a lease by plan.
func (a *API) Deregister(ctx context.Context, req *connect.Request[fairleadv1.DeregisterRequest]) (*connect.Response[fairleadv1.DeregisterResponse], error) {
	if a.Registry == nil {
		return nil, fault.New(fault.Unavailable, "", "nothing is registered here")
	}
	who, err := registrant(ctx, req.Header())
	if err != nil {
		return nil, err
	}
	if err := a.Registry.Deregister(who.String(), req.Msg.GetInstance()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.DeregisterResponse{}), nil
}
