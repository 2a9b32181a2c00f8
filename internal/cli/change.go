package cli

import (
	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type scaleCmd struct {
	Name      string `arg:"" help:"Name of the service."`
	Instances int32  `arg:"" help:"How many instances shall run."`
	waitFlags
}

func (cmd *scaleCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ScaleService(c.ctx, connect.NewRequest(&fairleadv1.ScaleServiceRequest{Service: cmd.Name, Instances: cmd.Instances, By: whoami()}))
	if err != nil {
		return remote(err)
	}
	return c.follow(cl, following{service: cmd.Name, generation: resp.Msg.GetGeneration(), verb: "scale", wait: cmd.waitFlags})
}

type restartCmd struct {
	Name string `arg:"" help:"Name of the service."`
	waitFlags
}

func (cmd *restartCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.RestartService(c.ctx, connect.NewRequest(&fairleadv1.RestartServiceRequest{Service: cmd.Name, By: whoami()}))
	if err != nil {
		return remote(err)
	}
	return c.follow(cl, following{service: cmd.Name, generation: resp.Msg.GetGeneration(), verb: "restart", wait: cmd.waitFlags})
}

type deleteCmd struct {
	Name     string `arg:"" help:"Name of the service."`
	Revision string `name:"revision" placeholder:"REV" help:"Delete the record of this revision only; refused while something refers to it."`
	waitFlags
}

func (cmd *deleteCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	if cmd.Revision != "" {
		req := &fairleadv1.DeleteRevisionRequest{Service: cmd.Name, Revision: cmd.Revision, By: whoami()}
		resp, err := cl.DeleteRevision(c.ctx, connect.NewRequest(req))
		if err != nil {
			return remote(err)
		}
		if !c.out.table() {
			return c.out.message(resp.Msg)
		}
		c.out.line("%s is gone", cmd.Revision)
		return nil
	}
	resp, err := cl.DeleteService(c.ctx, connect.NewRequest(&fairleadv1.DeleteServiceRequest{Service: cmd.Name, By: whoami()}))
	if err != nil {
		return remote(err)
	}
	return c.follow(cl, following{service: cmd.Name, generation: resp.Msg.GetGeneration(), verb: "delete", wait: cmd.waitFlags})
}
