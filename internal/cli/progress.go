package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

type waitFlags struct {
	Wait   time.Duration `name:"wait" default:"2m" placeholder:"D" help:"How long to wait for the end; what was asked for goes on after it. Default: ${default}."`
	NoWait bool          `name:"no-wait" help:"Do not wait for the end."`
}

// following is one change that is waited for.
type following struct {
	service    string
	generation int32
	verb       string // the command's name
	wait       waitFlags
}

// kind of change to wait for: a deploy waits for all that it asked for, and a
// deletion for the end of everything.
func (f following) kind() string {
	switch f.verb {
	case "scale", "restart", "pause", "resume", "abort":
		return f.verb
	}
	return ""
}

// follow tells the progress of a change until it ends or the wait is over. Where
// the API goes away meanwhile it is dialled again until then.
func (c *call) follow(cl *client, f following) error {
	if f.wait.NoWait {
		return c.askedFor(f)
	}
	ctx, cancel := context.WithTimeout(c.ctx, f.wait.Wait)
	defer cancel()
	p := c.progress()
	var lost error
	said := false
	for ctx.Err() == nil {
		end, err := c.watch(ctx, cl, f, p)
		if end != nil {
			return c.ended(cl, f, end)
		}
		if ctx.Err() != nil || connect.CodeOf(err) == connect.CodeDeadlineExceeded {
			break // the API may see the end of the wait before this clock does
		}
		if !away(err) {
			return remote(err)
		}
		if !said {
			said = true
			p.note("the API is gone; waiting for it to come back")
		}
		lost = err
		pause(ctx)
		if cl = c.again(ctx); cl != nil {
			lost = nil
			defer cl.close()
		}
	}
	p.clear()
	if c.ctx.Err() != nil {
		return fmt.Errorf("interrupted: the %s goes on; `fairlead status %s` shows how far it is", f.verb, f.service)
	}
	if lost != nil {
		return &unreachableError{fmt.Errorf("the API did not come back within %s, so how the %s went is not known: %w", f.wait.Wait, f.verb, lost)}
	}
	return stillGoing(f, p.at)
}

// askedFor tells where to look at what is not waited for.
func (c *call) askedFor(f following) error {
	if !c.out.table() {
		return c.out.value(struct {
			Service    string `json:"service"`
			Generation int32  `json:"generation"`
		}{f.service, f.generation})
	}
	c.out.line("generation %d of %s is asked for: `fairlead status %s` shows how far it is", f.generation, f.service, f.service)
	return nil
}

// stillGoing says that only the wait has ended, and how to follow what goes on.
func stillGoing(f following, at string) error {
	if at != "" {
		at = ", at step " + at
	}
	hint := fmt.Sprintf("follow it by `fairlead status %s` and `fairlead events %s`", f.service, f.service)
	if f.verb != "abort" && f.verb != "delete" {
		hint += fmt.Sprintf("; end it by `fairlead abort %s`", f.service)
	}
	return fault.New(fault.Timeout, hint+"; --wait says how long to wait",
		"still in progress after %s%s: the %s of %s goes on without this command", shortDuration(f.wait.Wait), at, f.verb, f.service)
}

// shortDuration is 2m, not 2m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// again dials until the API answers or ctx ends; then it returns nil.
func (c *call) again(ctx context.Context) *client {
	for ctx.Err() == nil {
		if cl, err := c.dial(); err == nil {
			return cl
		}
		pause(ctx)
	}
	return nil
}

// pause stands between two questions to an API that is away, and ends with ctx.
func pause(ctx context.Context) {
	t := time.NewTimer(200 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch follows on one connection. It returns the end, or why there is none.
func (c *call) watch(ctx context.Context, cl *client, f following, p *progress) (*fairleadv1.DeploymentEnd, error) {
	s, err := cl.WatchDeployment(ctx, connect.NewRequest(&fairleadv1.WatchDeploymentRequest{Service: f.service, Generation: f.generation, Kind: f.kind()}))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for s.Receive() {
		for _, step := range s.Msg().GetSteps() {
			p.step(step)
		}
		if end := s.Msg().GetEnded(); end != nil {
			p.clear()
			return end, nil
		}
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	// A server that is stopped ends its streams without an end.
	return nil, &unreachableError{errors.New("the API ended the stream")}
}

// progress shows steps: on a terminal the one that runs as a line that is
// written over, elsewhere a plain line for each that ended.
type progress struct {
	out   *printer
	err   *printer
	live  bool
	shown map[string]bool // :: attempt, step and state → shown already
	open  bool            // a line stands that is written over
	at    string          // the step that runs, with what it says
}

func (c *call) progress() *progress {
	p := &progress{out: c.out, err: &printer{Writer: c.env.Stderr}, shown: map[string]bool{}}
	if !c.out.table() { // standard output is for a program
		p.out = p.err
	}
	p.live = c.out.table() && isTerminal(c.env.Stdout)
	return p
}

func (p *progress) step(s *fairleadv1.StepProgress) {
	plainFields(s)
	key := fmt.Sprintf("%d/%s/%s", s.GetAttempt(), s.GetStep(), s.GetState())
	if s.GetState() == "running" || s.GetState() == "waiting" {
		p.at = strings.TrimSuffix(s.GetStep()+" ("+s.GetText()+")", " ()")
	}
	if s.GetState() == "running" {
		if p.live {
			p.clear()
			fmt.Fprintf(p.out, "%-10s %s  %s", s.GetStep(), p.out.paint(faint, ".."), s.GetText())
			p.open = true
		}
		return
	}
	if p.shown[key] {
		return
	}
	p.shown[key] = true
	p.clear()
	state, text := p.out.paint(green, "ok"), s.GetText()
	switch s.GetState() {
	case "done":
	case "failed":
		state, text = p.out.paint(red, "failed"), "" // the end says why, once
	default:
		state = p.out.paint(red, s.GetState()) // held by a person, or for what is away
	}
	took := ""
	if s.GetTook() != nil {
		took = "  " + span(s.GetTook().AsDuration())
	}
	p.out.line("%s", strings.TrimRight(fmt.Sprintf("%-10s %s%s  %s", s.GetStep(), state, took, text), " "))
}

func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.open = false
	}
}

func (p *progress) note(text string) {
	p.clear()
	p.err.line("%s", text)
}

// ended tells how a change ended, and gives the exit code to it.
func (c *call) ended(cl *client, f following, end *fairleadv1.DeploymentEnd) error {
	if !c.out.table() {
		if err := c.out.message(end); err != nil {
			return err
		}
	}
	plainFields(end)
	switch {
	case end.GetOutcome() == "done":
		return c.done(cl, f, end)
	case end.GetOutcome() == "deleted" && f.verb == "delete":
		if c.out.table() {
			c.out.line("%s is gone", f.service)
		}
		return nil
	}
	c.tellFailure(f, end)
	return exitError{ExitFailed}
}

func (c *call) done(cl *client, f following, end *fairleadv1.DeploymentEnd) error {
	if !c.out.table() {
		return nil
	}
	if f.verb == "pause" {
		c.out.line("%s is paused: %s", f.service, cmp.Or(end.GetReason(), "nothing is in progress; it goes on by: fairlead resume "+f.service))
		return nil
	}
	c.out.line("%s", end.GetServing())
	var err error
	if f.verb == "deploy" {
		err = c.reached(cl, f.service, end.GetUrl())
	}
	if end.GetHint() != "" {
		c.out.line("%s", end.GetHint())
	}
	return err
}

// unchanged tells of a deploy that asks for what there is already.
func (c *call) unchanged(cl *client, name string, resp *fairleadv1.DeployResponse) error {
	if !c.out.table() {
		return c.out.message(&fairleadv1.DeploymentEnd{Outcome: "done", Reason: resp.GetMessage(), Url: resp.GetUrl()})
	}
	return c.reached(cl, name, resp.GetUrl())
}

// reached prints where the service is reached, and a line that works where
// NAME.localhost does not resolve.
func (c *call) reached(cl *client, name, url string) error {
	if !c.out.table() {
		return nil
	}
	c.out.line("%s", url)
	info, err := cl.admin.GetInfo(c.ctx, connect.NewRequest(&fairleadv1.GetInfoRequest{}))
	// What was asked for is done; that the address cannot be asked for changes nothing of it.
	if err == nil && info.Msg.GetGatewayUrl() != "" {
		c.out.line("curl -H 'Host: %s' %s", service.LocalHost(name), info.Msg.GetGatewayUrl())
	}
	return nil
}

// tellFailure names the step, the reason, the last lines, what serves now, and
// whether it is tried again.
func (c *call) tellFailure(f following, end *fairleadv1.DeploymentEnd) {
	err := &printer{Writer: c.env.Stderr}
	what := f.verb + " of " + f.service
	if end.GetRevision() != "" {
		what += " (" + end.GetRevision() + ")"
	}
	switch {
	case end.GetOutcome() == "deleted":
		err.line("%s ended: the service was deleted", what)
	case end.GetOutcome() == "superseded":
		err.line("%s was %s", what, end.GetReason())
	case end.GetStep() != "":
		err.line("%s failed at step %s: %s", what, end.GetStep(), end.GetReason())
	default:
		err.line("%s failed: %s", what, end.GetReason())
	}
	if len(end.GetLastLines()) > 0 {
		err.line("its last lines were:\n%s", joinLines(end.GetLastLines(), "  | "))
	}
	if end.GetServing() != "" {
		err.line("%s", end.GetServing())
	}
	switch {
	case end.GetRetryAt() != nil:
		err.line("it is tried again at %s", clock(end.GetRetryAt()))
	case end.GetOutcome() == "failed" && end.GetHint() == "":
		err.line("it is not tried again")
	}
	if end.GetHint() != "" {
		err.line("%s", end.GetHint())
	}
}
