package cli

import (
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type instancesCmd struct {
	Name string `arg:"" help:"Name of the service."`
}

func (cmd *instancesCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ListInstances(c.ctx, connect.NewRequest(&fairleadv1.ListInstancesRequest{Service: cmd.Name}))
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
	for _, i := range resp.Msg.GetInstances() {
		rows = append(rows, []string{i.GetId(), i.GetSlot(), i.GetVerdict(), share(i.GetWeight()), i.GetZone(), clock(i.GetSince()), i.GetRule()})
	}
	c.out.rows("INSTANCE SLOT STATE WEIGHT ZONE SINCE RULE", rows)
	c.tellGuards(cmd.Name, resp.Msg.GetGuards())
	return nil
}

// share is a number between 0 and 1 as people read it.
func share(x float64) string { return fmt.Sprintf("%.3g%%", 100*x) }

// explainInstance says why an instance's verdict is what it is.
func (c *call) explainInstance(cl *client, service, instance string) error {
	resp, err := cl.ExplainInstance(c.ctx, connect.NewRequest(&fairleadv1.ExplainInstanceRequest{Service: service, Instance: instance}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	m, i := resp.Msg, resp.Msg.GetInstance()
	c.out.line("%s/%s: %s, weight %s, since %s", m.GetService(), i.GetId(), c.out.paint(bold, i.GetVerdict()), share(i.GetWeight()), clock(i.GetSince()))
	c.out.line("rule      %s: %s", i.GetRule(), m.GetWhy())
	for _, e := range m.GetEvidence() {
		c.out.line("evidence  %s", e)
	}
	c.out.line("changes   by: %s", m.GetNext())
	c.tellGuards(m.GetService(), m.GetGuards())
	if m.GetView() != "" {
		c.out.line("view      %s, %s", m.GetView(), heldBy(m.GetViewHolders()))
	}
	return nil
}

// heldBy says who picks by the published view, and who does not.
func heldBy(all []*fairleadv1.ViewHolder) string {
	var current, others, refused []string
	for _, h := range all {
		text := h.GetSubscriber()
		if !h.GetConnected() {
			text += " (not connected)"
		}
		if h.GetObjection() != "" {
			text += " (otherwise: " + h.GetObjection() + ")"
		}
		switch {
		case h.GetRefused() != nil:
			refused = append(refused, fmt.Sprintf("%s by %s", text, h.GetVersion()))
		case h.GetCurrent():
			current = append(current, text)
		case h.GetVersion() == "":
			others = append(others, text+" by none")
		default:
			others = append(others, text+" by "+h.GetVersion())
		}
	}
	out := "nobody picks by it"
	if len(current) > 0 {
		out = "picked by: " + strings.Join(current, ", ")
	}
	if len(others) > 0 {
		out += "; behind: " + strings.Join(others, ", ")
	}
	if len(refused) > 0 {
		out += "; refused by policy, and may still pick: " + strings.Join(refused, ", ")
	}
	return out
}

type historyCmd struct {
	Name     string `arg:"" help:"Name of the service."`
	Instance string `name:"instance" placeholder:"ID" help:"Of this instance only."`
	Limit    int32  `name:"limit" placeholder:"N" default:"100" help:"How many of the newest. Default: ${default}."`
}

func (cmd *historyCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	req := &fairleadv1.ListTransitionsRequest{Service: cmd.Name, Instance: cmd.Instance, Limit: cmd.Limit}
	resp, err := cl.ListTransitions(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.out.rows("AT INSTANCE FROM TO RULE WHY", historyRows(resp.Msg))
	if resp.Msg.GetMissing() != "" {
		c.out.line("not all of it could be read: %s", resp.Msg.GetMissing())
	}
	return nil
}

// historyRows are changes of verdicts, and between them what governs them.
func historyRows(m *fairleadv1.ListTransitionsResponse) (rows [][]string) {
	policies := m.GetPolicies()
	for _, t := range m.GetTransitions() {
		for len(policies) > 0 && !policies[0].GetAt().AsTime().After(t.GetAt().AsTime()) {
			rows, policies = append(rows, policyRow(policies[0])), policies[1:]
		}
		rows = append(rows, []string{clock(t.GetAt()), t.GetInstance(), t.GetFrom(), t.GetTo(), t.GetRule(), t.GetWhy()})
	}
	for _, p := range policies {
		rows = append(rows, policyRow(p))
	}
	return rows
}

func policyRow(p *fairleadv1.PolicyChange) []string {
	author := p.GetBy()
	if author == "" {
		author = "somebody"
	}
	return []string{clock(p.GetAt()), "-", "-", "-", p.GetWhat(), "set by " + author + ": " + strings.Join(p.GetChanges(), ", ")}
}

type contractCmd struct {
	Get  contractGetCmd  `cmd:"" help:"Show the health contract in force."`
	Set  contractSetCmd  `cmd:"" help:"Declare a health contract; a dangerous one is refused with the reason."`
	Test contractTestCmd `cmd:"" help:"Say what a health contract would have done over the evidence that is retained; exit with 1 if it would have removed an instance that was not removed, or tripped the guard, with 4 if most of that evidence is lost."`
}

type contractGetCmd struct {
	Name string `arg:"" help:"Name of the service."`
}

func (cmd *contractGetCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.GetContract(c.ctx, connect.NewRequest(&fairleadv1.GetContractRequest{Service: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	return c.out.file(resp.Msg.GetContract(), resp.Msg.GetDeclared())
}

// file shows a contract or a policy as the file that `set` reads.
func (p *printer) file(m proto.Message, declared bool) error {
	p.line("%s", p.paint(faint, map[bool]string{true: "# declared", false: "# the default: none is declared"}[declared]))
	raw, err := protojson.Marshal(m)
	if err == nil {
		raw, err = yaml.JSONToYAML(raw)
	}
	if err != nil {
		return fmt.Errorf("cannot encode the answer: %w", err)
	}
	_, err = p.Write(raw)
	return err
}

type contractSetCmd struct {
	Name string `arg:"" help:"Name of the service."`
	File string `short:"f" name:"file" required:"" placeholder:"FILE|-" help:"File of the contract, or - for standard input. What it leaves out is as in the default."`
}

func (cmd *contractSetCmd) Run(c *call) error {
	m, err := c.readContract(cmd.File)
	if err != nil {
		return err
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.SetContract(c.ctx, connect.NewRequest(&fairleadv1.SetContractRequest{Service: cmd.Name, Contract: m}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	return c.out.file(resp.Msg.GetContract(), true)
}

func (c *call) readContract(file string) (*fairleadv1.HealthContract, error) {
	m := &fairleadv1.HealthContract{}
	return m, c.readFile(file, "health contract", "docs/reference/health-contract.md lists the fields that there are", m)
}
