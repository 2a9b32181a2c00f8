package cli

import (
	"fmt"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type eventsCmd struct {
	Name  string `arg:"" help:"Name of the service."`
	Limit int32  `name:"limit" placeholder:"N" default:"100" help:"How many of the newest. Default: ${default}."`
}

func (cmd *eventsCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ListEvents(c.ctx, connect.NewRequest(&fairleadv1.ListEventsRequest{Service: cmd.Name, Limit: cmd.Limit}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	var rows [][]string
	for _, e := range resp.Msg.GetEvents() {
		rows = append(rows, []string{clock(e.GetAt()), fmt.Sprint(e.GetGeneration()), orDash(e.GetRevision()), e.GetKind(), e.GetText()})
	}
	c.out.rows("AT GENERATION REVISION KIND WHAT", rows)
	return nil
}
