package cli

import (
	"cmp"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type routesCmd struct {
	Name  string `arg:"" help:"Name of the service."`
	Limit int32  `name:"limit" placeholder:"N" default:"100" help:"How many callers are named, those that are behind first. Default: ${default}."`
}

func (cmd *routesCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ListRouters(c.ctx, connect.NewRequest(&fairleadv1.ListRoutersRequest{Service: cmd.Name, Most: cmd.Limit}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.tellRouters(resp.Msg)
	return nil
}

func (c *call) tellRouters(m *fairleadv1.ListRoutersResponse) {
	c.out.line("%s: %s", m.GetService(), cmp.Or(m.GetPlan(), "nothing is routed"))
	c.out.line("table %s; view %s, held by %d that are connected", cmp.Or(m.GetRoutes(), "none"), cmp.Or(m.GetView(), "not published"), m.GetCallers())
	var rows [][]string
	for _, r := range m.GetRouters() {
		who := r.GetRole() + "/" + r.GetName()
		if r.GetVia() != "" {
			who += " via " + r.GetVia()
		}
		heard := "-"
		if r.GetSilent() != nil {
			heard = spanOf(r.GetSilent())
		}
		stands := r.GetStands()
		if len(r.GetMayRoute()) > 0 {
			stands += "; may route to " + strings.Join(r.GetMayRoute(), ", ")
		}
		if r.GetUntil() != "" {
			stands = fmt.Sprintf("%s until %s", stands, r.GetUntil())
		}
		rows = append(rows, []string{who, cmp.Or(r.GetServes(), "-"), cmp.Or(r.GetKeeps(), "-"), cmp.Or(r.GetView(), "-"), heard, stands})
	}
	c.out.rows("WHO SERVES ON-DISK VIEW HEARD STANDS", rows)
	if m.GetMore() > 0 {
		c.out.line("and %d more: --limit N names more of them", m.GetMore())
	}
	if len(m.GetUnheard()) > 0 {
		c.out.line("%s", c.out.paint(red, "who subscribes there is not known, because it did not answer: "+strings.Join(m.GetUnheard(), ", ")))
	}
	for _, w := range m.GetStops() {
		c.out.line("waits: %s", w)
	}
}
