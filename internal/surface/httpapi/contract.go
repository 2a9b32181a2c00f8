package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/discovery"
	"github.com/fairlead-platform/fairlead/internal/eligibility"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
	"github.com/fairlead-platform/fairlead/internal/store"
)

const contractHint = "docs/reference/health-contract.md gives each field with its reason"

// GetContract gives the contract in force.
func (a *API) GetContract(ctx context.Context, req *connect.Request[fairleadv1.GetContractRequest]) (*connect.Response[fairleadv1.GetContractResponse], error) {
	name := req.Msg.GetService()
	if err := a.known(ctx, name); err != nil {
		return nil, err
	}
	c, _, declared, err := get[eligibility.Contract](ctx, a.Store, service.KindContract, name)
	if err != nil {
		return nil, err
	}
	if !declared {
		c = discovery.DefaultContract()
	}
	out, err := contractTo(c)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.GetContractResponse{Service: name, Contract: out, Declared: declared}), nil
}

// SetContract declares a contract, unless it is dangerous.
func (a *API) SetContract(ctx context.Context, req *connect.Request[fairleadv1.SetContractRequest]) (*connect.Response[fairleadv1.SetContractResponse], error) {
	name := req.Msg.GetService()
	alive, err := a.governable(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := contractOf(req.Msg.GetContract())
	if err == nil {
		err = a.fits(ctx, name, req.Msg.GetContract().GetProfile() != nil, &c)
	}
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, contractHint, "the contract is refused: %w", err)
	}
	body, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a contract: %w", err)
	}
	was, stands, declared, err := get[eligibility.Contract](ctx, a.Store, service.KindContract, name)
	damaged := fault.CodeOf(err) == fault.NeedsOperator // it is replaced
	if err != nil && !damaged {
		return nil, err
	}
	if !declared {
		was = discovery.DefaultContract()
	}
	change, err := a.policyWrite(ctx, name, "contract", was, c)
	if err != nil {
		return nil, err
	}
	err = a.apply(ctx, store.Apply{
		ID:     a.NewID(),
		Checks: []store.Check{alive},
		Writes: []store.Write{{Key: store.Key{Kind: service.KindContract, Name: name}, Expect: stands, Any: damaged, Body: body}, change},
	})
	if err != nil {
		return nil, err
	}
	out, err := contractTo(c)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.SetContractResponse{Contract: out}), nil
}

// fits refuses a contract that demands a signal which the service cannot supply.
func (a *API) fits(ctx context.Context, name string, said bool, c *eligibility.Contract) error {
	_, _, external, err := get[discovery.External](ctx, a.Store, service.KindExternal, name)
	if err != nil || !external {
		return err
	}
	if !said {
		c.Profile = eligibility.Profile{Outcomes: true}
	}
	if c.Profile.Probe || c.Profile.Self {
		return errors.New("profile: the service is somebody else's: outcomes are all that is to be had of it")
	}
	return nil
}

// The message and the record have the same fields by the same names, and the
// same JSON.

// contractOf is the default with what the message says. A profile is named
// whole.
func contractOf(m *fairleadv1.HealthContract) (eligibility.Contract, error) {
	c := discovery.DefaultContract()
	text, err := protojson.MarshalOptions{EmitUnpopulated: false}.Marshal(m)
	if err != nil {
		return c, err
	}
	if m.GetProfile() != nil {
		c.Profile = eligibility.Profile{}
	}
	return c, json.Unmarshal(text, &c)
}

func contractTo(c eligibility.Contract) (*fairleadv1.HealthContract, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a contract: %w", err)
	}
	out := &fairleadv1.HealthContract{}
	if err := protojson.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("cannot encode a contract: %w", err)
	}
	return out, nil
}
