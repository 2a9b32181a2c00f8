package cli

import (
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type externalCmd struct {
	Set    externalSetCmd    `cmd:"" help:"Declare the endpoints of somebody else's service: all of them."`
	List   externalListCmd   `cmd:"" help:"List what is declared."`
	Delete externalDeleteCmd `cmd:"" help:"Take a declaration back."`
}

type externalSetCmd struct {
	Name      string   `arg:"" help:"Name of the service."`
	Endpoints []string `name:"endpoint" required:"" sep:"none" placeholder:"ADDRESS[,ZONE]" help:"HOST:PORT or a URL, and the zone it stands in. May be repeated."`
}

func (cmd *externalSetCmd) Run(c *call) error {
	req := &fairleadv1.SetExternalRequest{Service: cmd.Name}
	for _, e := range cmd.Endpoints {
		address, zone, _ := strings.Cut(e, ",")
		req.Endpoints = append(req.Endpoints, &fairleadv1.ExternalEndpoint{Address: address, Zone: zone})
	}
	return c.setExternal(req)
}

type externalDeleteCmd struct {
	Name string `arg:"" help:"Name of the service."`
}

func (cmd *externalDeleteCmd) Run(c *call) error {
	return c.setExternal(&fairleadv1.SetExternalRequest{Service: cmd.Name})
}

func (c *call) setExternal(req *fairleadv1.SetExternalRequest) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.SetExternal(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.tellExternals(resp.Msg.GetExternal())
	return nil
}

type externalListCmd struct{}

func (cmd *externalListCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ListExternals(c.ctx, connect.NewRequest(&fairleadv1.ListExternalsRequest{}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.tellExternals(resp.Msg.GetExternals()...)
	return nil
}

func (c *call) tellExternals(all ...*fairleadv1.External) {
	var rows [][]string
	for _, x := range all {
		for _, e := range x.GetEndpoints() {
			rows = append(rows, []string{x.GetService(), e.GetAddress(), orDash(e.GetZone()), e.GetId()})
		}
	}
	c.out.rows("SERVICE ADDRESS ZONE INSTANCE", rows)
}
