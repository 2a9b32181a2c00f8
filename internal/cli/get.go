package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
)

type getCmd struct {
	Name    string `arg:"" optional:"" help:"Name of the service; all services when it is left out."`
	ShowEnv bool   `name:"show-env" help:"Show the values of environment variables too."`
}

func (cmd *getCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	if cmd.Name == "" {
		return c.getAll(cl)
	}
	resp, err := cl.GetService(c.ctx, connect.NewRequest(&fairleadv1.GetServiceRequest{Service: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	s := resp.Msg.GetService()
	if !cmd.ShowEnv {
		s = hideEnv(s)
	}
	if !c.out.table() {
		return c.out.message(s)
	}
	plainFields(s)
	c.out.service(s)
	return nil
}

const hidden = "(hidden: --show-env shows it)"

// hideEnv is s with the names of its environment and not the values.
func hideEnv(s *fairleadv1.Service) *fairleadv1.Service {
	out := proto.CloneOf(s)
	for k := range out.GetTemplate().GetEnv() {
		out.Template.Env[k] = hidden
	}
	return out
}

func (c *call) getAll(cl *client) error {
	resp, err := cl.ListServices(c.ctx, connect.NewRequest(&fairleadv1.ListServicesRequest{}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	if len(resp.Msg.GetServices()) == 0 {
		c.out.line("There are no services yet: `fairlead deploy NAME -- COMMAND` makes one.")
		return nil
	}
	var rows [][]string
	for _, s := range resp.Msg.GetServices() {
		rows = append(rows, []string{s.GetService(), s.GetState(), orDash(s.GetRevision()), fmt.Sprintf("%d/%d", s.GetLive(), s.GetInstances()), orDash(s.GetSource()), orDash(s.GetUrl())})
	}
	c.out.rows("SERVICE STATE REVISION LIVE SOURCE URL", rows)
	return nil
}

// service prints the desired document.
func (p *printer) service(s *fairleadv1.Service) {
	rows := append([][2]string{
		{"service", s.GetService()},
		{"generation", fmt.Sprintf("%d, by %s at %s", s.GetGeneration(), orDash(s.GetBy()), clock(s.GetAt()))},
	}, serviceRows(s)...)
	if s.GetDeleted() {
		rows = append(rows, [2]string{"deleted", "it is being torn down"})
	}
	if s.GetPaused() {
		rows = append(rows, [2]string{"paused", "it goes on by: fairlead resume " + s.GetService()})
	}
	for _, r := range rows {
		if r[1] != "" {
			p.line("%-16s %s", r[0], r[1])
		}
	}
}

// serviceRows are what the document asks for, field by field; one that is
// empty is not said.
func serviceRows(s *fairleadv1.Service) [][2]string {
	t := s.GetTemplate()
	return [][2]string{
		{"command", shellWords(t.GetCommand())},
		{"artifact", t.GetArtifact()},
		{"env", envText(t.GetEnv())},
		{"directory", t.GetDir()},
		{"user", t.GetUser()},
		{"instances", fmt.Sprint(s.GetInstances())},
		{"host names", strings.Join(s.GetHostNames(), " ")},
		{"traffic", targets(s.GetTraffic())},
		{"request group", t.GetGroup()},
		{"handover", t.GetHandover()},
		{"idempotent", zero("every method", !t.GetIdempotent())},
		{"ready path", t.GetReadyPath()},
		{"concurrency", zero(fmt.Sprint(t.GetConcurrency()), t.GetConcurrency() == 0)},
		{"request timeout", limit(t.GetRequestTimeout())},
		{"drain", limit(t.GetDrain())},
		{"ready timeout", limit(t.GetReadyTimeout())},
	}
}

func limit(d *durationpb.Duration) string { return zero(d.AsDuration().String(), d.AsDuration() == 0) }

func zero(s string, isZero bool) string {
	if isZero {
		return ""
	}
	return s
}

func envText(env map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if env[k] == hidden {
			out = append(out, k)
		} else {
			out = append(out, k+"="+env[k])
		}
	}
	return strings.Join(out, " ")
}

func targets(all []*fairleadv1.TrafficTarget) string {
	var out []string
	for _, t := range all {
		text := fmt.Sprintf("%s %d%%", orLatest(t.GetRevision()), t.GetPercent())
		if t.GetTag() != "" {
			text += " (tag " + t.GetTag() + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func orLatest(revision string) string {
	if revision == "" {
		return "latest"
	}
	return revision
}

// shellWords is a command as a shell takes it.
func shellWords(command []string) string {
	out := make([]string, len(command))
	for i, w := range command {
		if out[i] = w; w == "" || strings.ContainsAny(w, " \t\n'\"\\$`!*?[](){}<>|&;#~") {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
