package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

type drillCmd struct {
	ControlPlane drillControlPlaneCmd `cmd:"" name:"control-plane" help:"Keep control away for a while on the running system, and say whether anybody's calls failed for it."`
	End          drillEndCmd          `cmd:"" help:"End a drill early: control answers again."`
}

type drillControlPlaneCmd struct {
	For time.Duration `name:"for" placeholder:"DURATION" default:"30s" help:"How long control answers no stream: 5s to 1h. Default: ${default}."`
	Yes bool          `name:"yes" help:"Do not ask."`
}

const drillWarning = `For %s control will do nothing: it answers no stream of gateways, callers, relays, hosts and probers, places and replaces nothing, and takes note of no
failure. What is deployed or edited meanwhile is recorded and done afterwards. Callers route by what they hold, and by their own eyes; an instance that
dies is not replaced before its host is led again. The API goes on: fairlead drill end ends it at once, and it ends by itself though this command is killed.
`

// Run makes the drill, follows it, and exits with 1 where the claim did not hold.
func (cmd *drillControlPlaneCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	// What cannot begin is refused before anybody is asked.
	ready, err := cl.PrepareDrill(c.ctx, connect.NewRequest(&fairleadv1.PrepareDrillRequest{Length: durationpb.New(cmd.For)}))
	if err != nil {
		return remote(err)
	}
	if c.out.table() {
		c.out.line(drillWarning, span(cmd.For))
		c.tellDoubts(ready.Msg)
	}
	if !cmd.Yes && !c.confirmed() {
		return fault.New(fault.Invalid, "answer yes, or give --yes", "the drill was not begun")
	}
	if _, err := cl.StartDrill(c.ctx, connect.NewRequest(&fairleadv1.StartDrillRequest{Length: durationpb.New(cmd.For)})); err != nil {
		return remote(err)
	}
	d, err := c.followDrill(cl)
	if err != nil {
		return err
	}
	if c.out.table() {
		plainFields(d)
		c.tellDrill(d)
	} else if err := c.out.message(d); err != nil {
		return err
	}
	if !d.GetVerdict().GetHeld() {
		return exitError{ExitFailed}
	}
	return nil
}

// tellDoubts names who would not route as they should.
func (c *call) tellDoubts(m *fairleadv1.PrepareDrillResponse) {
	if len(m.GetDoubts()) == 0 {
		c.out.line("%d are connected; every gateway and caller in the table of who may route holds what it needs", m.GetParties())
		return
	}
	c.out.line("%d are connected; of these would not route as they should:", m.GetParties())
	for _, d := range m.GetDoubts() {
		c.out.line("  %s", c.out.paint(red, d))
	}
}

// confirmed asks a person, where there is one.
func (c *call) confirmed() bool {
	if !c.out.terminal {
		return false
	}
	fmt.Fprint(c.out, "Begin? Type yes: ")
	answer, err := bufio.NewReader(io.LimitReader(c.env.Stdin, 100)).ReadString('\n')
	return err == nil && strings.TrimSpace(answer) == "yes"
}

// followDrill waits for its end. One that is interrupted ends the drill.
func (c *call) followDrill(cl *client) (*fairleadv1.Drill, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	state := ""
	for {
		select {
		case <-c.ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), 5*time.Second)
			defer cancel()
			if _, err := cl.EndDrill(ctx, connect.NewRequest(&fairleadv1.EndDrillRequest{})); err != nil {
				return nil, fmt.Errorf("interrupted, and the drill goes on until its time has passed: %w", remote(err))
			}
			return nil, fmt.Errorf("interrupted: control answers again: %w", c.ctx.Err())
		case <-tick.C:
		}
		resp, err := cl.GetDrill(c.ctx, connect.NewRequest(&fairleadv1.GetDrillRequest{}))
		if err != nil {
			if c.ctx.Err() != nil {
				continue
			}
			return nil, fmt.Errorf("the drill goes on, and its verdict is in its record: %w", remote(err))
		}
		d := resp.Msg.GetDrill()
		if d.GetState() != state && c.out.table() {
			state = d.GetState()
			switch state {
			case "outage":
				c.out.line("control is away; %d were connected", d.GetParties())
			case "return":
				c.out.line("control answers again after %s", spanOf(d.GetElapsed()))
			}
		}
		if d.GetState() == "over" {
			return d, nil
		}
	}
}

func (c *call) tellDrill(d *fairleadv1.Drill) {
	v := d.GetVerdict()
	c.out.line("%d of %d are back, the last one after %s", d.GetBack(), d.GetParties(), spanOf(v.GetReturned()))
	c.out.line("%d calls were made without control; %d failed at an instance, %d had nowhere to go; the oldest view was %s old", v.GetCalls(), v.GetFailed(), v.GetUnroutable(), spanOf(v.GetOldest()))
	c.out.line("the table of who may route by what: %d asked for by name, the most silent one heard %s ago", v.GetAsked(), spanOf(v.GetSilent()))
	c.tellRoutersAfter(d.GetRouters())
	for _, n := range v.GetNotes() {
		c.out.line("note: %s", n)
	}
	for _, a := range v.GetAgainst() {
		c.out.line("%s", c.out.paint(red, "against: "+a))
	}
	if v.GetHeld() {
		c.out.line("%s", c.out.paint(green, "the claim held: no call failed for want of control, and everybody in the table stands as before"))
	} else {
		c.out.line("%s", c.out.paint(red, "the claim did not hold"))
	}
}

// routersShown are listed for people; all are in the answer.
const routersShown = 20

func (c *call) tellRoutersAfter(all []*fairleadv1.DrillRouter) {
	var rows [][]string
	for _, r := range all[:min(len(all), routersShown)] {
		holds := fmt.Sprintf("%d of %d newest", r.GetCurrent(), r.GetServices())
		if r.GetServices() == 0 {
			holds = "-"
		}
		rows = append(rows, []string{
			r.GetRole() + "/" + r.GetName(), fmt.Sprintf("%d of %d", r.GetAfter(), r.GetBefore()), holds, cmp.Or(r.GetServes(), "-"),
			spanOf(r.GetSilent()), cmp.Or(strings.Join(r.GetAgainst(), "; "), "-"),
		})
	}
	if len(rows) > 0 {
		c.out.rows("WHO BACK VIEWS SERVES HEARD AGAINST", rows)
	}
	if more := len(all) - len(rows); more > 0 {
		c.out.line("and %d more: -o json has them", more)
	}
}

type drillEndCmd struct{}

// Run ends it.
func (cmd *drillEndCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	if _, err := cl.EndDrill(c.ctx, connect.NewRequest(&fairleadv1.EndDrillRequest{})); err != nil {
		return remote(err)
	}
	if c.out.table() {
		c.out.line("control answers again")
	}
	return nil
}
