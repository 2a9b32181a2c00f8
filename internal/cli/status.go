package cli

import (
	"fmt"
	"strings"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type statusCmd struct {
	Name string `arg:"" help:"Name of the service."`
}

func (cmd *statusCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.GetStatus(c.ctx, connect.NewRequest(&fairleadv1.GetStatusRequest{Service: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.out.status(resp.Msg)
	return nil
}

func (p *printer) status(s *fairleadv1.GetStatusResponse) {
	p.line("%s  %s", s.GetService(), s.GetUrl())
	if len(s.GetHostNames()) > 1 {
		p.line("also at        %s", strings.Join(s.GetHostNames()[1:], " "))
	}
	p.line("generation     %d wanted, %d applied", s.GetGeneration(), s.GetObservedGeneration())
	if s.GetDeleting() {
		p.line("deleting       it is being torn down")
	}
	if s.GetPaused() {
		p.line("%s         it goes on by: fairlead resume %s", p.paint(red, "paused"), s.GetService())
	}
	p.line("traffic        %s", orDash(trafficText(s.GetTraffic())))
	if s.GetPinned() != "" {
		p.line("pinned         %s; a new revision gets 0%% until: fairlead traffic %s LATEST=100", s.GetPinned(), s.GetService())
	}
	if s.GetWarm() != "" {
		p.line("warm           %s, until %s: going back to it is one write", s.GetWarm(), clock(s.GetWarmUntil()))
	}
	p.routes(s.GetRoutes(), s.GetService())
	p.missing(s.GetMissing())
	if s.GetView() != "" {
		p.line("view           %s, %s", s.GetView(), heldBy(s.GetViewHolders()))
	}
	if n := s.GetRefused(); n > 0 {
		p.line("refused        %d by policy, which may still pick by what they hold: fairlead subscribers %s", n, s.GetService())
	}
	p.deployment(s.GetDeployment())
	for _, w := range s.GetStops() {
		p.line("waits          %s", w)
	}
	if s.GetNeedsOperator() != "" {
		p.line("%s %s", p.paint(red, "needs operator"), s.GetNeedsOperator())
	}
	for _, n := range s.GetNotes() {
		p.line("note           %s", n)
	}
	for _, a := range s.GetAlarms() {
		p.line("%s          %s", p.paint(red, "alarm"), a)
	}
	p.line("")
	p.revisions(s.GetRevisions())
	p.line("")
	p.instances(s.GetInstances())
}

func trafficText(all []*fairleadv1.TrafficStatus) string {
	var out []string
	for _, t := range all {
		text := fmt.Sprintf("%s %d%%", t.GetRevision(), t.GetPercent())
		if t.GetTag() != "" {
			text += " (tag " + t.GetTag() + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func (p *printer) routes(r *fairleadv1.RoutesStatus, service string) {
	if r.GetVersion() == "" {
		p.line("routes         none published")
		return
	}
	if r.GetHeld() {
		p.line("%s           since %s, %s: fairlead explain %s", p.paint(red, "held"), clock(r.GetHeldSince()), waiting(r.GetWaiting()), service)
	}
	var out []string
	for _, t := range r.GetTraffic() {
		out = append(out, fmt.Sprintf("%s %d%%", t.GetRevision(), t.GetPercent()))
	}
	p.line("routes         %s  version %s", orDash(strings.Join(out, ", ")), r.GetVersion())
	more := ""
	if len(r.GetBehind()) > 0 {
		more = "; behind: " + strings.Join(r.GetBehind(), ", ")
	}
	for i, g := range r.GetUnheard() {
		more += map[bool]string{true: "; not heard: ", false: ", "}[i == 0] + unheard(g)
	}
	p.line("gateways       %d of %d serve it%s", r.GetAcknowledged(), r.GetGateways(), more)
}

func waiting(n int32) string {
	if n == 1 {
		return "1 request waits"
	}
	return fmt.Sprintf("%d requests wait", n)
}

func unheard(g *fairleadv1.UnheardGateway) string {
	if g.GetSilent() == nil {
		return g.GetName() + " since control began to lead"
	}
	return g.GetName() + " for " + spanOf(g.GetSilent())
}

// missing says which credits nobody can use, and what to do.
func (p *printer) missing(all []*fairleadv1.MissingCredits) {
	for _, m := range all {
		text := fmt.Sprintf("%d of %d credits are with gateway %s, which ", m.GetCredits(), m.GetOf(), m.GetGateway())
		if m.GetHeard() {
			text += "its hosts do not hear; control does"
		} else {
			text += "is not heard; if it does not come back: fairlead gateways retire " + m.GetGateway()
		}
		p.line("%s        %s", p.paint(red, "missing"), text)
	}
}

func (p *printer) deployment(d *fairleadv1.DeploymentStatus) {
	if d == nil {
		return
	}
	text := d.GetKind()
	if d.GetRevision() != "" {
		text += " of " + d.GetRevision()
	}
	text += fmt.Sprintf(", attempt %d: %s", d.GetAttempt(), d.GetState())
	if d.GetStep() != "" {
		text += " at " + d.GetStep()
	}
	p.line("last change    %s", text)
	if d.GetHeld() != "" {
		p.line("held           %s", d.GetHeld())
	}
	if d.GetError() != "" {
		p.line("error          %s", d.GetError())
	}
	if d.GetRetryAt() != nil {
		p.line("tried again    %s", clock(d.GetRetryAt()))
	}
}

func (p *printer) revisions(all []*fairleadv1.RevisionStatus) {
	var rows [][]string
	for _, r := range all {
		rows = append(rows, []string{r.GetName(), r.GetState(), clock(r.GetCreatedAt()), short(r.GetDigest()), r.GetReason()})
	}
	p.rows("REVISION STATE CREATED DIGEST REASON", rows)
}

// short is enough of a digest to tell it from others.
func short(digest string) string {
	_, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) < 12 {
		return orDash(digest)
	}
	return hex[:12]
}

func (p *printer) instances(all []*fairleadv1.InstanceStatus) {
	var rows [][]string
	for _, i := range all {
		detail := i.GetDetail()
		if i.GetExitStatus() != "" && !strings.Contains(detail, i.GetExitStatus()) {
			detail = strings.TrimPrefix(detail+"; "+i.GetExitStatus(), "; ")
		}
		rows = append(rows, []string{
			i.GetId(), i.GetSlot(), strings.TrimSuffix(i.GetState()+","+i.GetSlotState(), ","), fmt.Sprint(i.GetPid()), fmt.Sprint(i.GetRestarts()),
			i.GetHost() + "/" + i.GetZone(), i.GetEligibility(), detail,
		})
	}
	p.rows("INSTANCE SLOT STATE PID RESTARTS HOST/ZONE ELIGIBILITY DETAIL", rows)
}

type revisionsCmd struct {
	Name string `arg:"" help:"Name of the service."`
}

func (cmd *revisionsCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.ListRevisions(c.ctx, connect.NewRequest(&fairleadv1.ListRevisionsRequest{Service: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	c.out.revisions(resp.Msg.GetRevisions())
	return nil
}
