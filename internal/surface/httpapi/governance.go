package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

const policyHint = "docs/reference/service-policy.md gives each field with its reason"

// GetPolicy gives the policy of a service.
func (a *API) GetPolicy(ctx context.Context, req *connect.Request[fairleadv1.GetPolicyRequest]) (*connect.Response[fairleadv1.GetPolicyResponse], error) {
	name := req.Msg.GetService()
	if err := a.known(ctx, name); err != nil {
		return nil, err
	}
	p, _, declared, err := get[service.Policy](ctx, a.Store, service.KindGovernance, name)
	if err != nil {
		return nil, err
	}
	if !declared {
		p = service.DefaultPolicy()
	}
	out, err := policyTo(p)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.GetPolicyResponse{Service: name, Policy: out, Declared: declared}), nil
}

// SetPolicy declares a policy, unless it is wrong, or dangerous and not forced.
func (a *API) SetPolicy(ctx context.Context, req *connect.Request[fairleadv1.SetPolicyRequest]) (*connect.Response[fairleadv1.SetPolicyResponse], error) {
	name := req.Msg.GetService()
	alive, err := a.governable(ctx, name)
	if err != nil {
		return nil, err
	}
	p, err := policyOf(req.Msg.GetPolicy())
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, policyHint, "the policy is refused: %w", err)
	}
	if d := p.Dangers(); len(d) > 0 && !req.Msg.GetForce() {
		return nil, fault.New(fault.Invalid, "--force takes it all the same; "+policyHint, "the policy is refused: %s", strings.Join(d, "\n"))
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a policy: %w", err)
	}
	was, stands, declared, err := get[service.Policy](ctx, a.Store, service.KindGovernance, name)
	damaged := fault.CodeOf(err) == fault.NeedsOperator // it is replaced
	if err != nil && !damaged {
		return nil, err
	}
	if !declared {
		was = service.DefaultPolicy()
	}
	change, err := a.policyWrite(ctx, name, "policy", was, p)
	if err != nil {
		return nil, err
	}
	err = a.apply(ctx, store.Apply{
		ID:     a.NewID(),
		Checks: []store.Check{alive},
		Writes: []store.Write{{Key: store.Key{Kind: service.KindGovernance, Name: name}, Expect: stands, Any: damaged, Body: body}, change},
	})
	if err != nil {
		return nil, err
	}
	out, err := policyTo(p)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.SetPolicyResponse{Policy: out}), nil
}

// governable refuses to decide about a service that is not known, or is being
// deleted, and gives the check that it stays so.
func (a *API) governable(ctx context.Context, name string) (store.Check, error) {
	desired, version, _, err := get[service.Desired](ctx, a.Store, service.KindDesired, name)
	if err == nil && version == 0 {
		err = a.known(ctx, name)
	}
	if err == nil && desired.Deleted {
		err = fault.New(fault.Invalid, "", "service %s is being deleted", name)
	}
	return store.Check{Key: store.Key{Kind: service.KindDesired, Name: name}, Version: version}, err
}

// The message and the record have the same fields by the same names, and the
// same JSON.

// policyOf is the default with what the message says.
func policyOf(m *fairleadv1.ServicePolicy) (service.Policy, error) {
	p := service.DefaultPolicy()
	text, err := protojson.MarshalOptions{EmitUnpopulated: false}.Marshal(m)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(text, &p)
}

func policyTo(p service.Policy) (*fairleadv1.ServicePolicy, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a policy: %w", err)
	}
	out := &fairleadv1.ServicePolicy{}
	if err := protojson.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("cannot encode a policy: %w", err)
	}
	return out, nil
}
