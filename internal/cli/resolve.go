package cli

import (
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type resolveCmd struct {
	Name  string        `arg:"" help:"Name of the service."`
	Agent string        `name:"agent" placeholder:"SOCKET" help:"Ask the agent at this socket what it holds, instead of control what is published."`
	Wait  time.Duration `name:"wait" placeholder:"D" help:"Of an agent that holds no view yet: how long to wait for one, at most 1s."`
}

// Run shows the view, what is known of its age, and each endpoint.
func (cmd *resolveCmd) Run(c *call) error {
	dial := c.dial
	if cmd.Agent != "" {
		dial = func() (*client, error) { return c.overSocket(strings.TrimPrefix(cmd.Agent, "unix:")) }
	}
	cl, err := dial()
	if err != nil {
		return err
	}
	defer cl.close()
	req := &fairleadv1.ResolveRequest{Service: cmd.Name}
	if cmd.Wait > 0 {
		req.Wait = durationpb.New(cmd.Wait)
	}
	resp, err := cl.resolve.Resolve(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.tellView(resp.Msg)
	return nil
}

func (c *call) tellView(m *fairleadv1.ResolveResponse) {
	c.out.line("%s at version %s of %s, %s", c.out.paint(bold, m.GetService()), m.GetVersion(), m.GetIncarnation(), from(m))
	if m.GetDeleted() {
		c.out.line("deleted   the service is gone: nobody picks any instance of it")
	}
	if m.GetEmpty() {
		c.out.line("empty     it has no instances by intent")
	}
	if len(m.GetAllowedCallers()) > 0 {
		c.out.line("allowed   %s", strings.Join(m.GetAllowedCallers(), ", "))
	}
	if m.GetAnyZone() {
		c.out.line("zones     callers pick from all zones alike")
	}
	for _, s := range m.GetShares() {
		if len(m.GetShares()) > 1 {
			c.out.line("share     %d%% to %s", s.GetPercent(), strings.Join(s.GetRevisions(), ", "))
		}
	}
	for _, t := range m.GetTags() {
		c.out.line("tag       %s is %s", t.GetName(), strings.Join(t.GetRevisions(), ", "))
	}
	for _, k := range m.GetMarks() {
		if k.GetDegradedConfidence() {
			c.out.line("%s     health is disregarded in %s of %s: of %d that are counted, only %d are in rotation by their verdicts", c.out.paint(red, "guard"), zoneOf(k), k.GetGroup(), k.GetCounted(), k.GetIn())
		}
	}
	if m.GetObjection() != "" {
		c.out.line("otherwise %s", m.GetObjection())
	}
	if m.GetRefused() != "" {
		c.out.line("refused   %s", m.GetRefused())
	}
	var rows [][]string
	for _, e := range m.GetEndpoints() {
		rows = append(rows, []string{e.GetInstance(), e.GetAddress(), orDash(e.GetZone()), e.GetVerdict(), weightOf(e), capability(e), e.GetRevision()})
	}
	c.out.rows("INSTANCE ADDRESS ZONE VERDICT WEIGHT HEALTH REVISION", rows)
}

// from says where a view is from, and how old what is known is.
func from(m *fairleadv1.ResolveResponse) string {
	age := spanOf(m.GetAge())
	switch {
	case m.GetSource() == "published":
		return "published " + age + " ago"
	case m.GetConnected():
		return fmt.Sprintf("from %s; the plane was heard %s ago", m.GetSource(), age)
	}
	return fmt.Sprintf("from %s; the plane is not heard, for %s", m.GetSource(), age)
}

func zoneOf(k *fairleadv1.ZoneMark) string {
	if k.GetZone() == "" {
		return "the small zones"
	}
	return "zone " + k.GetZone()
}

func weightOf(e *fairleadv1.ResolvedEndpoint) string {
	switch {
	case e.GetEjected():
		return "set aside"
	case e.GetWeight() == 0:
		return "out"
	}
	return share(float64(e.GetWeight()) / 1000)
}

func capability(e *fairleadv1.ResolvedEndpoint) string {
	if e.GetHealthUnknown() {
		return "unknown"
	}
	return "known"
}
