package cli

import (
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Make a token by which one of a role joins, once."`
}

type tokenCreateCmd struct {
	Role string        `name:"role" required:"" placeholder:"ROLE" help:"Role that may join by it: host, gateway, prober, relay, agent or caller."`
	Name string        `name:"name" help:"Name that it is bound to. Default: the joiner chooses."`
	TTL  time.Duration `name:"ttl" default:"1h" placeholder:"D" help:"How long it is good for. Default: ${default}."`
}

func (cmd *tokenCreateCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.admin.CreateToken(c.ctx, connect.NewRequest(&fairleadv1.CreateTokenRequest{Role: cmd.Role, Name: cmd.Name, Ttl: durationpb.New(cmd.TTL)}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	c.out.line("%s", resp.Msg.GetToken())
	return nil
}

type gatewaysCmd struct {
	List   gatewaysListCmd   `cmd:"" default:"withargs" help:"List the known gateways."`
	Retire gatewaysRetireCmd `cmd:"" help:"End the membership of a gateway that will not come back."`
}

type gatewaysListCmd struct{}

func (cmd *gatewaysListCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.admin.ListGateways(c.ctx, connect.NewRequest(&fairleadv1.ListGatewaysRequest{}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	var rows [][]string
	for _, g := range resp.Msg.GetGateways() {
		rows = append(rows, []string{g.GetName(), connected(g.GetConnected()), spanOf(g.GetSilent()), orDash(g.GetServes()), orDash(g.GetKeeps()), views(g), orDash(g.GetPublicAddress()), orDash(g.GetPollAddress())})
	}
	c.out.rows("GATEWAY CONNECTED SILENT SERVES KEEPS VIEWS PUBLIC POLL", rows)
	for _, g := range resp.Msg.GetGateways() {
		for _, r := range g.GetRefused() {
			c.out.line("%s refuses %s", g.GetName(), r)
		}
		if len(g.GetViewsMissing()) > 0 {
			c.out.line("%s is too old for what views mean by %s", g.GetName(), strings.Join(g.GetViewsMissing(), ", "))
		}
		if g.GetKeepError() != "" {
			c.out.line("%s cannot keep what it serves: %s", g.GetName(), g.GetKeepError())
		}
	}
	return nil
}

// views says how many a gateway holds, and whether they are the published ones.
func views(g *fairleadv1.GatewayStatus) string {
	out := fmt.Sprint(g.GetViews())
	if n := g.GetViewsBehind(); n > 0 {
		out += fmt.Sprintf(",%d-behind", n)
	}
	if !g.GetViewsConnected() {
		out += ",not-connected"
	}
	return out
}

type gatewaysRetireCmd struct {
	Name string `arg:"" help:"Name of the gateway."`
}

func (cmd *gatewaysRetireCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	if _, err := cl.admin.RetireGateway(c.ctx, connect.NewRequest(&fairleadv1.RetireGatewayRequest{Name: cmd.Name})); err != nil {
		return remote(err)
	}
	return c.retired("gateway", cmd.Name)
}

func connected(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// retired says that the membership of a role has ended.
func (c *call) retired(role, name string) error {
	if !c.out.table() {
		return c.out.value(map[string]string{role: name, "state": "retired"})
	}
	c.out.line("%s %s is retired", role, name)
	return nil
}
