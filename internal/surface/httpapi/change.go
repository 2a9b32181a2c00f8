package httpapi

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// ScaleService asks for another number of instances.
func (a *API) ScaleService(ctx context.Context, req *connect.Request[fairleadv1.ScaleServiceRequest]) (*connect.Response[fairleadv1.ScaleServiceResponse], error) {
	author := service.Author{By: by(ctx, req.Msg.GetBy()), At: a.Now()}
	n := int(req.Msg.GetInstances())
	generation, err := a.change(ctx, req.Msg.GetService(), "scale", func(d service.Desired) (service.Desired, error) {
		return d.Scale(n, author)
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.ScaleServiceResponse{Generation: generation}), nil
}

// RestartService asks for every instance to be replaced.
func (a *API) RestartService(ctx context.Context, req *connect.Request[fairleadv1.RestartServiceRequest]) (*connect.Response[fairleadv1.RestartServiceResponse], error) {
	author := service.Author{By: by(ctx, req.Msg.GetBy()), At: a.Now()}
	generation, err := a.change(ctx, req.Msg.GetService(), "restart", func(d service.Desired) (service.Desired, error) {
		return d.Restart(author), nil
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&fairleadv1.RestartServiceResponse{Generation: generation}), nil
}

// change writes the next generation of a service that stands. These verbs name
// what they change and nothing else, so a lost race is run again on what won.
func (a *API) change(ctx context.Context, name, verb string, edit func(service.Desired) (service.Desired, error)) (int32, error) {
	return a.changeBound(ctx, name, verb, func(c *change) (err error) {
		c.next, err = edit(*c.old)
		return err
	})
}

// changeBound is change with an edit that may bind the write to more than the
// document: it sets next and adds checks.
func (a *API) changeBound(ctx context.Context, name, verb string, edit func(*change) error) (int32, error) {
	var err error
	for range 5 {
		var c change
		if c, err = a.standing(ctx, name); err != nil {
			return 0, err
		}
		c.verb = verb
		if err = edit(&c); err != nil {
			return 0, err
		}
		if err = Coded(a.write(ctx, c)); err == nil {
			return c.next.Generation, nil
		}
		if !errors.Is(err, fault.Conflict) {
			return 0, err
		}
	}
	return 0, err
}

func (a *API) standing(ctx context.Context, name string) (change, error) {
	d, version, err := a.desired(ctx, name)
	if err != nil {
		return change{}, err
	}
	if d.Deleted {
		return change{}, fault.New(fault.Conflict, "deploy it again to have it back", "service %s is being deleted", name)
	}
	return change{old: &d, version: version}, nil
}
