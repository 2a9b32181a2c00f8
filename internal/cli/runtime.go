package cli

import (
	"fmt"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type flapsCmd struct {
	Name string `arg:"" help:"Name of the service."`
}

func (cmd *flapsCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ListFlaps(c.ctx, connect.NewRequest(&fairleadv1.ListFlapsRequest{Service: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	if resp.Msg.GetObserving() {
		c.out.line("%d changes in the last ten minutes", resp.Msg.GetChanges())
	}
	if len(resp.Msg.GetQuarantines()) == 0 {
		c.out.line("no instance was quarantined")
	}
	for _, q := range resp.Msg.GetQuarantines() {
		state := "over"
		if q.GetInForce() {
			state = c.out.paint(red, "in force")
		}
		c.out.line("\n%s  quarantined %s for %s, %s", c.out.paint(bold, q.GetInstance()), clock(q.GetAt()), spanOf(q.GetLength()), state)
		var rows [][]string
		for _, t := range q.GetEarnedBy() {
			rows = append(rows, []string{"", clock(t.GetAt()), t.GetFrom(), t.GetTo(), t.GetRule(), t.GetWhy()})
		}
		c.out.rows("· AT FROM TO RULE WHY", rows)
	}
	return nil
}

type diffRuntimeCmd struct{}

// Run compares, and exits with 1 where something differs.
func (cmd *diffRuntimeCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.DiffRuntime(c.ctx, connect.NewRequest(&fairleadv1.DiffRuntimeRequest{}))
	if err != nil {
		return remote(err)
	}
	if c.out.table() {
		plainFields(resp.Msg)
		c.tellRuntime(resp.Msg)
	} else if err := c.out.message(resp.Msg); err != nil {
		return err
	}
	if !resp.Msg.GetObserving() || len(resp.Msg.GetDifferences()) > 0 {
		return exitError{ExitFailed}
	}
	for _, s := range resp.Msg.GetSources() {
		if !s.GetAnswers() {
			return exitError{ExitFailed}
		}
	}
	return nil
}

func (c *call) tellRuntime(m *fairleadv1.DiffRuntimeResponse) {
	if !m.GetObserving() {
		c.out.line("nothing is known yet: control has only just begun to observe")
		return
	}
	var rows [][]string
	for _, s := range m.GetSources() {
		lag := "not heard"
		if s.GetLag() != nil {
			lag = spanOf(s.GetLag())
		}
		answers := "yes"
		if !s.GetAnswers() {
			answers = c.out.paint(red, "no")
		}
		rows = append(rows, []string{s.GetSource(), s.GetName(), fmt.Sprint(s.GetListed()), fmt.Sprint(s.GetRegistered()), lag, answers})
	}
	c.out.rows("SOURCE NAME LISTED REGISTERED LAG ANSWERS", rows)
	if len(m.GetDifferences()) == 0 {
		c.out.line("no row differs")
		return
	}
	c.out.line("")
	rows = nil
	for _, d := range m.GetDifferences() {
		rows = append(rows, []string{d.GetSource(), d.GetName(), d.GetService(), d.GetInstance(), d.GetWhat(), d.GetAuthority(), d.GetRegistry()})
	}
	c.out.rows("SOURCE NAME SERVICE INSTANCE WHAT AUTHORITY REGISTRY", rows)
}
