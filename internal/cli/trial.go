package cli

import (
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type contractTestCmd struct {
	Name  string        `arg:"" help:"Name of the service."`
	File  string        `short:"f" name:"file" required:"" placeholder:"FILE|-" help:"File of the contract, or - for standard input. What it leaves out is as in the default."`
	Since time.Duration `name:"since" default:"6h" placeholder:"DURATION" help:"How long ago the window of evidence begins, at most 168h. Default: ${default}."`

	AllowPartial bool `name:"allow-partial" help:"Take it for a pass where most of the window's evidence is lost."`
}

// Run exits with 1 where the contract is condemned, or would be refused, and with
// 4 where too little was replayed to say that it is not.
func (cmd *contractTestCmd) Run(c *call) error {
	m, err := c.readContract(cmd.File)
	if err != nil {
		return err
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	req := &fairleadv1.TestContractRequest{Service: cmd.Name, Contract: m, Since: durationpb.New(cmd.Since)}
	resp, err := cl.TestContract(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	if c.out.table() {
		plainFields(resp.Msg)
		c.tellTrial(resp.Msg, cmd.AllowPartial)
	} else if err := c.out.message(resp.Msg); err != nil {
		return err
	}
	switch m := resp.Msg; {
	case m.GetCondemned() || m.GetDangerous() != "":
		return exitError{ExitFailed}
	case m.GetInconclusive() != "" && !cmd.AllowPartial:
		return exitError{ExitUnknown}
	}
	return nil
}

func (c *call) tellTrial(m *fairleadv1.TestContractResponse, partial bool) {
	c.out.line("%s, %s to %s: %d s of evidence, %d s of them lost", m.GetService(), clock(m.GetFrom()), clock(m.GetTo()), m.GetSeconds(), m.GetLostSeconds())
	c.out.line("the contract in force gives %d of the %d recorded changes again", m.GetReproduced(), m.GetRecorded())
	c.tellRemovals("would have been removed", m.GetRemovals(), true)
	c.tellRemovals("was removed, and would have stayed", m.GetSpared(), false)
	var rows [][]string
	for _, t := range m.GetTrips() {
		zone := t.GetZone()
		if zone == "" {
			zone = "(small zones)"
		}
		rows = append(rows, []string{clock(t.GetAt()), zone, t.GetGroup(), fmt.Sprintf("%d of %d", t.GetInRotation(), t.GetCounted()), c.inForceToo(t.GetAlsoInForce())})
	}
	if len(rows) > 0 {
		c.out.line("\nthe fraction guard would have tripped")
		c.out.rows("AT ZONE GROUP IN IN-FORCE", rows)
	}
	if m.GetDangerous() != "" {
		c.out.line("\nit would be refused: %s", m.GetDangerous())
	}
	verdict := c.out.paint(green, "no instance would have been removed that was not, and the guard would not have tripped")
	if m.GetInconclusive() != "" {
		c.out.line("\ntoo little was replayed: %s", m.GetInconclusive())
	}
	switch {
	case m.GetCondemned():
		verdict = c.out.paint(red, "condemned: it would have removed what was not removed, or tripped the guard")
	case m.GetInconclusive() != "" && !partial:
		verdict = c.out.paint(red, "it is not known what it would have done: try a window that is retained (--since), or take it so (--allow-partial)")
	}
	c.out.line("\n%s", verdict)
}

func (c *call) tellRemovals(heading string, all []*fairleadv1.TestedRemoval, compare bool) {
	if len(all) == 0 {
		return
	}
	columns := "AT INSTANCE RULE WHY"
	if compare {
		columns = "AT INSTANCE IN-FORCE RULE WHY"
	}
	var rows [][]string
	for _, r := range all {
		row := []string{clock(r.GetAt()), r.GetInstance()}
		if compare {
			row = append(row, c.inForceToo(r.GetAlsoInForce()))
		}
		rows = append(rows, append(row, r.GetRule(), r.GetWhy()))
	}
	c.out.line("\n%s", heading)
	c.out.rows(columns, rows)
}

func (c *call) inForceToo(yes bool) string {
	if yes {
		return "too"
	}
	return c.out.paint(red, "not")
}
