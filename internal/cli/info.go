package cli

import (
	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type infoCmd struct{}

// Run tells of the control that is asked, whether it leads or stands by.
func (cmd *infoCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.admin.GetInfo(c.ctx, connect.NewRequest(&fairleadv1.GetInfoRequest{}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	m := resp.Msg
	c.out.line("version      %s", m.GetVersion())
	c.out.line("leads        %s", connected(m.GetLeading()))
	c.out.line("epoch        %s", orDash(m.GetEpoch()))
	c.out.line("store        %s, incarnation %s", m.GetStore(), m.GetIncarnation())
	c.out.line("guarantee    %s", m.GetGuarantee())
	c.out.line("gateway      %s", orDash(m.GetGatewayUrl()))
	for _, a := range m.GetAlarms() {
		c.out.line("%s        %s", c.out.paint(red, "alarm"), a)
	}
	return nil
}
