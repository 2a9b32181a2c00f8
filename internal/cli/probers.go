package cli

import (
	"fmt"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type probersCmd struct{}

func (cmd *probersCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.admin.ListProbers(c.ctx, connect.NewRequest(&fairleadv1.ListProbersRequest{}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	if !resp.Msg.GetObserving() {
		c.out.line("nothing is known yet: control has only just begun to observe")
		return nil
	}
	var rows [][]string
	for _, p := range resp.Msg.GetProbers() {
		suspect := "no"
		if p.GetSuspect() {
			suspect = "since " + clock(p.GetSuspectSince())
		}
		looked := "-"
		if p.GetLooked() != nil {
			looked = spanOf(p.GetLooked())
		}
		rows = append(rows, []string{
			p.GetName(), p.GetZone(), connected(p.GetConnected()), spanOf(p.GetSilent()), looked, fmt.Sprint(p.GetTargets()), fmt.Sprint(p.GetBorrowed()), suspect,
		})
	}
	c.out.rows("PROBER ZONE CONNECTED SILENT LOOKED TARGETS BORROWED SUSPECT", rows)
	for _, p := range resp.Msg.GetProbers() {
		switch {
		case p.GetSuspect():
			c.out.line("%s is suspect: %s; what it says against instances waits for another's word", p.GetName(), p.GetWhy())
		case p.GetGone():
			c.out.line("%s is silent: others look at its targets, where there are others", p.GetName())
		}
	}
	if n := resp.Msg.GetUnwatched(); n > 0 {
		c.out.line("%d instances are looked at by nobody: no prober has room for them, start more", n)
	}
	return nil
}
