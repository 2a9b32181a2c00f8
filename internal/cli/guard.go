package cli

import (
	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type guardCmd struct {
	Accept  guardAcceptCmd  `cmd:"" help:"Follow health: what it keeps out is withdrawn."`
	Decline guardDeclineCmd `cmd:"" help:"Do not follow health: what was in rotation stays."`
}

type guardFlags struct {
	Name  string `arg:"" help:"Name of the service."`
	Group string `name:"group" placeholder:"GROUP" help:"Of this request group only."`
	Zone  string `name:"zone" placeholder:"ZONE" help:"In this zone only."`
}

type guardAcceptCmd struct{ guardFlags }

func (cmd *guardAcceptCmd) Run(c *call) error { return c.decideGuard(cmd.guardFlags, true) }

type guardDeclineCmd struct{ guardFlags }

func (cmd *guardDeclineCmd) Run(c *call) error { return c.decideGuard(cmd.guardFlags, false) }

func (c *call) decideGuard(f guardFlags, accept bool) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	req := &fairleadv1.DecideGuardRequest{Service: f.Name, Group: f.Group, Zone: f.Zone, Accept: accept, By: whoami()}
	resp, err := cl.DecideGuard(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.tellGuards(f.Name, resp.Msg.GetDecided())
	return nil
}

// tellGuards says what the guards of a service do that have tripped.
func (c *call) tellGuards(name string, all []*fairleadv1.GuardState) {
	for _, g := range all {
		where := g.GetZone()
		if where == "" {
			where = "its small zones"
		}
		c.out.line("guard     of %s in %s only %d of %d are in rotation by their verdicts, since %s: %s", g.GetGroup(), where, g.GetIn(), g.GetCounted(), clock(g.GetSince()), guardDoes(name, g))
	}
}

func guardDoes(name string, g *fairleadv1.GuardState) string {
	switch {
	case g.GetMode() == "honour":
		return "health is followed all the same (honour)"
	case g.GetMode() != "hold":
		return "health is disregarded, and all that count are served (serve-all)"
	case g.GetDecision() == "":
		return "what was in rotation stays until a person decides (hold): fairlead guard accept " + name + ", or decline"
	case g.GetDecision() == "accepted":
		return "health is followed, accepted by " + orDash(g.GetBy())
	}
	return "what was in rotation stays, declined by " + orDash(g.GetBy())
}
