package cli

import (
	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type abortCmd struct {
	Name string `arg:"" help:"Name of the service."`
	waitFlags
}

func (cmd *abortCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.AbortService(c.ctx, connect.NewRequest(&fairleadv1.AbortServiceRequest{Service: cmd.Name, By: whoami()}))
	if err != nil {
		return remote(err)
	}
	return c.follow(cl, following{service: cmd.Name, generation: resp.Msg.GetGeneration(), verb: "abort", wait: cmd.waitFlags})
}

type pauseCmd struct {
	Name string `arg:"" help:"Name of the service."`
	waitFlags
}

func (cmd *pauseCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.PauseService(c.ctx, connect.NewRequest(&fairleadv1.PauseServiceRequest{Service: cmd.Name, By: whoami()}))
	if err != nil {
		return remote(err)
	}
	return c.follow(cl, following{service: cmd.Name, generation: resp.Msg.GetGeneration(), verb: "pause", wait: cmd.waitFlags})
}

type resumeCmd struct {
	Name string `arg:"" help:"Name of the service."`
	waitFlags
}

func (cmd *resumeCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ResumeService(c.ctx, connect.NewRequest(&fairleadv1.ResumeServiceRequest{Service: cmd.Name, By: whoami()}))
	if err != nil {
		return remote(err)
	}
	return c.follow(cl, following{service: cmd.Name, generation: resp.Msg.GetGeneration(), verb: "resume", wait: cmd.waitFlags})
}
