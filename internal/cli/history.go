package cli

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type logsCmd struct {
	Name     string `arg:"" help:"Name of the service."`
	Follow   bool   `short:"f" name:"follow" help:"Go on with what is written."`
	Instance string `name:"instance" placeholder:"ID" help:"Of one instance only."`
	Tail     int    `name:"tail" placeholder:"N" default:"100" help:"How many last lines of each instance. Default: ${default}."`
}

func (cmd *logsCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	s, err := cl.StreamLogs(c.ctx, connect.NewRequest(&fairleadv1.StreamLogsRequest{
		Service: cmd.Name, Instance: cmd.Instance, Follow: cmd.Follow, TailLines: int32(cmd.Tail),
	}))
	if err != nil {
		return remote(err)
	}
	defer s.Close()
	last := ""
	for s.Receive() {
		if !c.out.table() {
			if len(s.Msg().GetEntries()) > 0 {
				if err := c.out.message(s.Msg()); err != nil {
					return err
				}
			}
			continue
		}
		for _, e := range s.Msg().GetEntries() {
			if e.GetInstance() != last && cmd.Instance == "" {
				last = e.GetInstance()
				c.out.line("%s", c.out.paint(faint, "==> "+e.GetRevision()+" "+e.GetInstance()+" <=="))
			}
			c.out.line("%s", e.GetText())
		}
	}
	if c.ctx.Err() != nil && cmd.Follow { // Ctrl-C is how following ends
		return nil
	}
	if err := s.Err(); err != nil {
		return remote(err)
	}
	if cmd.Follow {
		return &unreachableError{errors.New("the API ended the stream")}
	}
	return nil
}

type eventsCmd struct {
	Name  string `arg:"" help:"Name of the service."`
	Limit int    `name:"limit" placeholder:"N" default:"100" help:"How many of the newest. Default: ${default}."`
}

func (cmd *eventsCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ListEvents(c.ctx, connect.NewRequest(&fairleadv1.ListEventsRequest{Service: cmd.Name, Limit: int32(cmd.Limit)}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	var rows [][]string
	for _, e := range resp.Msg.GetEvents() {
		rows = append(rows, []string{clock(e.GetAt()), fmt.Sprint(e.GetGeneration()), orDash(e.GetRevision()), e.GetKind(), e.GetText()})
	}
	c.out.rows("AT GENERATION REVISION KIND WHAT", rows)
	return nil
}
