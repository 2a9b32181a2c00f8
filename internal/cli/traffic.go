package cli

import (
	"strconv"
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

type trafficCmd struct {
	Name   string   `arg:"" help:"Name of the service."`
	Shares []string `arg:"" optional:"" name:"revision=percent" help:"Share of a revision; LATEST is whichever is the latest. Shares add up to 100; without any they stay as they are."`
	Tag    []string `name:"tag" sep:"none" placeholder:"T=REV" help:"Make TAG---NAME lead to the revision alone; T- removes the tag. May be repeated."`
	waitFlags
}

func (cmd *trafficCmd) Run(c *call) error {
	req := &fairleadv1.SetTrafficRequest{Service: cmd.Name, Tags: map[string]string{}, By: whoami()}
	for _, s := range cmd.Shares {
		share, err := shareOf(s)
		if err != nil {
			return err
		}
		req.Traffic = append(req.Traffic, share)
	}
	for _, t := range cmd.Tag {
		tag, revision, ok := strings.Cut(t, "=")
		if removed, cut := strings.CutSuffix(t, "-"); !ok && cut {
			tag, ok = removed, true
		}
		if !ok || tag == "" {
			return fault.New(fault.Invalid, "say TAG=REVISION, or TAG- to remove it", "--tag %q names no tag and revision", t)
		}
		req.Tags[tag] = revision
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.SetTraffic(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	return c.follow(cl, following{service: cmd.Name, generation: resp.Msg.GetGeneration(), verb: "traffic", wait: cmd.waitFlags})
}

// shareOf is REVISION=PERCENT, with a percent sign or without.
func shareOf(s string) (*fairleadv1.TrafficTarget, error) {
	revision, percent, ok := strings.Cut(s, "=")
	n, err := strconv.Atoi(strings.TrimSuffix(percent, "%"))
	if !ok || revision == "" || err != nil {
		return nil, fault.New(fault.Invalid, "say REVISION=PERCENT, e.g. LATEST=100", "%q is not a share of the traffic", s)
	}
	return &fairleadv1.TrafficTarget{Revision: revision, Percent: int32(min(max(n, -1), 101))}, nil
}

type rollbackCmd struct {
	Name   string `arg:"" help:"Name of the service."`
	To     string `name:"to" placeholder:"REV" help:"Revision to go back to. Default: the one that served before."`
	DryRun bool   `name:"dry-run" help:"Say which revision it would be, and why; change nothing."`
	waitFlags
}

// Run says which revision it will be and why, and then goes back to that one or
// to none.
func (cmd *rollbackCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	req := &fairleadv1.RollbackServiceRequest{Service: cmd.Name, To: cmd.To, DryRun: true}
	choice, err := cl.RollbackService(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	if cmd.DryRun && !c.out.table() {
		return c.out.message(choice.Msg)
	}
	c.announce(cmd.Name, choice.Msg)
	if cmd.DryRun {
		return nil
	}
	req = &fairleadv1.RollbackServiceRequest{
		Service: cmd.Name, To: cmd.To, By: whoami(), ExpectedGeneration: choice.Msg.GetGeneration(), ExpectedRevision: choice.Msg.GetRevision(),
	}
	done, err := cl.RollbackService(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	return c.follow(cl, following{service: cmd.Name, generation: done.Msg.GetGeneration(), verb: "rollback", wait: cmd.waitFlags})
}

func (c *call) announce(name string, choice *fairleadv1.RollbackServiceResponse) {
	out := c.out
	if !out.table() { // standard output is for a program
		out = &printer{Writer: c.env.Stderr}
	}
	how := "it is started again before traffic is moved"
	if choice.GetWarm() {
		how = "it runs, so that only the routes change"
	}
	out.line("%s goes back to %s: %s; %s", name, choice.GetRevision(), choice.GetReason(), how)
	out.line("its configuration comes back with it, and traffic is pinned to it until: fairlead traffic %s LATEST=100", name)
}
