package cli

import (
	"fmt"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type hostsCmd struct {
	List    hostsListCmd    `cmd:"" default:"withargs" help:"List the known hosts."`
	Drain   hostsDrainCmd   `cmd:"" help:"Have what a host runs served by others, and place nothing there until it is undrained."`
	Undrain hostsUndrainCmd `cmd:"" help:"Let instances be placed on a host again; nothing is moved back."`
	Retire  hostsRetireCmd  `cmd:"" help:"End the membership of a host that will not come back; what it ran is placed elsewhere."`
}

type hostsRetireCmd struct {
	Name string `arg:"" help:"Name of the host."`
}

func (cmd *hostsRetireCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	if _, err := cl.admin.RetireHost(c.ctx, connect.NewRequest(&fairleadv1.RetireHostRequest{Name: cmd.Name})); err != nil {
		return remote(err)
	}
	return c.retired("host", cmd.Name)
}

type hostsDrainCmd struct {
	Name string `arg:"" help:"Name of the host."`
}

func (cmd *hostsDrainCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.admin.DrainHost(c.ctx, connect.NewRequest(&fairleadv1.DrainHostRequest{Name: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	plainFields(resp.Msg)
	if !c.out.table() {
		return c.out.value(map[string]string{"host": cmd.Name, "state": "draining", "detail": resp.Msg.GetDetail()})
	}
	c.out.line("host %s: %s", cmd.Name, resp.Msg.GetDetail())
	return nil
}

type hostsUndrainCmd struct {
	Name string `arg:"" help:"Name of the host."`
}

func (cmd *hostsUndrainCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	if _, err := cl.admin.UndrainHost(c.ctx, connect.NewRequest(&fairleadv1.UndrainHostRequest{Name: cmd.Name})); err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.value(map[string]string{"host": cmd.Name, "state": "not draining"})
	}
	c.out.line("host %s takes instances again", cmd.Name)
	return nil
}

type hostsListCmd struct{}

func (cmd *hostsListCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.admin.ListHosts(c.ctx, connect.NewRequest(&fairleadv1.ListHostsRequest{}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	var rows [][]string
	for _, h := range resp.Msg.GetHosts() {
		rows = append(rows, []string{
			h.GetName(), h.GetZone(), connected(h.GetConnected()), spanOf(h.GetSilent()), fmt.Sprint(h.GetInstances()),
			orDash(h.GetState()), freeText(h.GetFreeBytes()),
		})
	}
	c.out.rows("HOST ZONE CONNECTED SILENT INSTANCES STATE FREE", rows)
	for _, h := range resp.Msg.GetHosts() {
		if h.GetDetail() != "" {
			c.out.line("%s: %s", h.GetName(), h.GetDetail())
		}
		if h.GetRefuses() != "" {
			c.out.line("%s takes no more instances: %s", h.GetName(), h.GetRefuses())
		}
	}
	for _, n := range resp.Msg.GetNotes() {
		c.out.line("%s", n)
	}
	return nil
}

// freeText is a number of bytes on a disk, or a dash where none was told.
func freeText(bytes int64) string {
	switch {
	case bytes <= 0:
		return "-"
	case bytes < 10<<30:
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d GiB", bytes>>30)
}
