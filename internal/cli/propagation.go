package cli

import (
	"cmp"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type subscribersCmd struct {
	Name     string `arg:"" help:"Name of the service."`
	Versions bool   `name:"versions" help:"Count who holds each version, and name nobody."`
	Limit    int32  `name:"limit" placeholder:"N" default:"100" help:"How many are named, those that are behind first. Default: ${default}."`
}

func (cmd *subscribersCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ListSubscribers(c.ctx, connect.NewRequest(&fairleadv1.ListSubscribersRequest{Service: cmd.Name, Most: cmd.Limit}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	m := resp.Msg
	c.out.line("%s: view %s, held by %d that are connected", m.GetService(), cmp.Or(m.GetPublished(), "not published"), m.GetCallers())
	if m.GetRefused() > 0 {
		c.out.line("%s", c.out.paint(red, fmt.Sprintf("%d more are refused by its policy, and may still pick by what they hold", m.GetRefused())))
	}
	if cmd.Versions {
		c.tellVersions(m)
	} else {
		c.tellSubscribers(m.GetSubscribers())
		if m.GetMore() > 0 {
			c.out.line("and %d more: --limit N names more of them, --versions counts them", m.GetMore())
		}
	}
	if len(m.GetUnheard()) > 0 {
		c.out.line("%s", c.out.paint(red, "who subscribes there is not known, because it did not answer: "+strings.Join(m.GetUnheard(), ", ")))
	}
	return nil
}

func (c *call) tellVersions(m *fairleadv1.ListSubscribersResponse) {
	var rows [][]string
	known := int32(0)
	for _, v := range m.GetVersions() {
		known += v.GetHolders()
		rows = append(rows, []string{v.GetVersion(), fmt.Sprint(v.GetHolders()), behind(v.GetBehind(), true)})
	}
	if none := m.GetCallers() - known; none > 0 {
		rows = append(rows, []string{"none yet", fmt.Sprint(none), "-"})
	}
	c.out.rows("VERSION HOLDERS BEHIND", rows)
}

func (c *call) tellSubscribers(all []*fairleadv1.SubscriberRow) {
	var rows [][]string
	for _, s := range all {
		who := s.GetRole() + "/" + s.GetName()
		if s.GetVia() != "" {
			who += " via " + s.GetVia()
		}
		var notes []string
		if s.GetRefused() != nil {
			notes = append(notes, c.out.paint(red, s.GetStands()))
		} else if !s.GetConnected() {
			notes = append(notes, c.out.paint(red, s.GetStands()))
		}
		if s.GetObjection() != "" {
			notes = append(notes, "picks otherwise: "+s.GetObjection())
		}
		if s.GetUntil() != "" {
			notes = append(notes, "may pick by it until "+s.GetUntil())
		}
		if len(s.GetMissing()) > 0 {
			notes = append(notes, "does not know "+strings.Join(s.GetMissing(), ", "))
		}
		rows = append(rows, []string{
			who, cmp.Or(s.GetVersion(), "none yet"), behind(s.GetBehind(), s.GetVersion() != ""), spanOf(s.GetSilent()),
			cmp.Or(s.GetLibrary(), "-"), cmp.Or(s.GetRoutes(), "-"), strings.Join(notes, "; "),
		})
	}
	c.out.rows("WHO VERSION BEHIND HEARD LIBRARY ROUTES NOTE", rows)
}

func behind(d *durationpb.Duration, holds bool) string {
	switch {
	case d != nil:
		return spanOf(d)
	case holds:
		return "current"
	}
	return "-"
}

type propagationCmd struct {
	Name string `arg:"" help:"Name of the service."`
}

// Run shows it, and exits with 1 where a promise is not kept.
func (cmd *propagationCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.GetPropagation(c.ctx, connect.NewRequest(&fairleadv1.GetPropagationRequest{Service: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	if c.out.table() {
		plainFields(resp.Msg)
		c.tellPropagation(resp.Msg)
	} else if err := c.out.message(resp.Msg); err != nil {
		return err
	}
	for _, p := range resp.Msg.GetPromises() {
		if p.GetMissed() {
			return exitError{ExitFailed}
		}
	}
	return nil
}

func (c *call) tellPropagation(m *fairleadv1.GetPropagationResponse) {
	if m.GetPublished() == "" {
		c.out.line("no view of %s is published", m.GetService())
		return
	}
	c.out.line("%s: view %s, held by %d that are connected", m.GetService(), m.GetPublished(), m.GetCallers())
	var rows [][]string
	for _, l := range m.GetLatencies() {
		rows = append(rows, []string{l.GetKind(), fmt.Sprint(l.GetAcknowledged()), within(l.GetHalf()), within(l.GetP99()), within(l.GetP999())})
	}
	c.out.rows("CHANGE ACKNOWLEDGED HALF 99% 99.9%", rows)
	c.out.line("")
	rows = nil
	for _, p := range m.GetPromises() {
		kept := "nothing was due"
		if p.GetDue() > 0 {
			kept = fmt.Sprintf("%.4g%% of %d", 100*float64(p.GetInTime())/float64(p.GetDue()), p.GetDue())
		}
		if p.GetMissed() {
			kept = c.out.paint(red, "MISSED: "+kept)
		}
		rows = append(rows, []string{p.GetKind(), fmt.Sprintf("%g%% within %s", 100*p.GetShare(), spanOf(p.GetWithin())), kept})
	}
	c.out.rows("CHANGE PROMISED KEPT", rows)
	if m.GetShed() != nil {
		c.out.line("%s", c.out.paint(red, fmt.Sprintf("additions and planned removals wait up to %s: %s", spanOf(m.GetShed()), m.GetShedWhy())))
	}
	if len(m.GetBehind()) > 0 {
		c.out.line("\nnot current:")
		c.tellSubscribers(m.GetBehind())
	}
}

func within(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	return "≤ " + spanOf(d)
}
