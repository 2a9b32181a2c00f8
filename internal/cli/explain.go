package cli

import (
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type explainCmd struct {
	Name string `arg:"" name:"service[/instance]" help:"Name of the service, or of one instance of it: SERVICE/INSTANCE."`
}

func (cmd *explainCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	if service, instance, of := strings.Cut(cmd.Name, "/"); of {
		return c.explainInstance(cl, service, instance)
	}
	resp, err := cl.ExplainService(c.ctx, connect.NewRequest(&fairleadv1.ExplainServiceRequest{Service: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.out.line("%s: %s", resp.Msg.GetService(), resp.Msg.GetSummary())
	for _, s := range resp.Msg.GetSections() {
		c.out.line("\n%s", c.out.paint(bold, s.GetTitle()))
		for _, l := range s.GetLines() {
			c.out.line("  %s", l)
		}
	}
	return nil
}
