package cli

import (
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type identityRevokeCmd struct {
	Name   string `arg:"" help:"Caller, or agent/NAME, relay/NAME or prober/NAME."`
	Reason string `name:"reason" placeholder:"TEXT" help:"Why, for the record."`
}

// Run names what to do next: whoever used it needs another.
func (cmd *identityRevokeCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	m := &fairleadv1.RevokeIdentityRequest{Name: cmd.Name, Reason: cmd.Reason}
	if role, name, ok := strings.Cut(cmd.Name, "/"); ok {
		m.Role, m.Name = role, name
	}
	resp, err := cl.identity.RevokeIdentity(c.ctx, connect.NewRequest(m))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.value(map[string]any{"identity": resp.Msg.GetIdentity(), "revoked": true})
	}
	c.out.line("%s is revoked: control answers it nothing from now on, and neither do relays within seconds of hearing control", resp.Msg.GetIdentity())
	c.out.line("the name is never given again; who holds a view already can dial what is in it")
	return nil
}

type identityListCmd struct{}

func (cmd *identityListCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.identity.ListIdentities(c.ctx, connect.NewRequest(&fairleadv1.ListIdentitiesRequest{}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	if len(resp.Msg.GetIdentities()) == 0 {
		c.out.line("no identity was given to a caller, and none was revoked")
		return nil
	}
	var rows [][]string
	for _, x := range resp.Msg.GetIdentities() {
		state := "given"
		if x.GetTimes() > 1 {
			state = fmt.Sprintf("given %d times", x.GetTimes())
		}
		if x.GetRevoked() != nil {
			state = "revoked " + onDay(x.GetRevoked()) + " by " + orDefault(x.GetRevokedBy(), "somebody")
			if x.GetReason() != "" {
				state += ": " + x.GetReason()
			}
		}
		rows = append(rows, []string{x.GetRole() + "/" + x.GetName(), onDay(x.GetGiven()), orDefault(x.GetGivenBy(), "-"), state})
	}
	c.out.rows("IDENTITY GIVEN BY STATE", rows)
	return nil
}

func onDay(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format("2006-01-02 15:04")
}
