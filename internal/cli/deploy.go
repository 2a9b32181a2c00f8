package cli

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

type deployCmd struct {
	Name    string   `arg:"" help:"Name of the service: a DNS label."`
	Command []string `arg:"" optional:"" help:"After --, the program and its arguments; with a slash in it, the program is a local file. It must listen on $$PORT; '$$(PORT)' in an argument, in single quotes, is expanded on the host. May be left out once the service exists."`

	Instances      *int32         `name:"instances" placeholder:"N" help:"How many instances run. Default: 1."`
	Env            []string       `name:"env" sep:"none" placeholder:"K=V" help:"Set an environment variable; K- removes it. May be repeated."`
	Dir            *string        `name:"dir" placeholder:"DIR" help:"Working directory, used in place. Default: an empty folder of the instance's own."`
	HostName       []string       `name:"host-name" sep:"none" placeholder:"H" help:"Host name that leads here too. May be repeated; the given ones replace the list, an empty one empties it."`
	ReadyPath      *string        `name:"ready-path" placeholder:"PATH" help:"Path that must answer 2xx or 3xx for an instance to be live."`
	User           *string        `name:"user" placeholder:"U" help:"User that the instances run as."`
	Concurrency    *int           `name:"concurrency" placeholder:"N" help:"Requests that an instance takes at once. Default: 100."`
	RequestTimeout *time.Duration `name:"request-timeout" placeholder:"D" help:"Time to the first byte of a response. Default: 60s."`
	Drain          *time.Duration `name:"drain" placeholder:"D" help:"How long old requests may go on after a handover. Default: 30s."`
	ReadyTimeout   *time.Duration `name:"ready-timeout" placeholder:"D" help:"How long an attempt may take to become ready. Default: 60s."`
	RequestGroup   *string        `name:"request-group" placeholder:"G" help:"Request group that revisions of this service share: one of them answers at a time. Empty gives each its own, as by default."`
	Handover       *string        `name:"handover" placeholder:"H" help:"How a revision follows another: exclusive stops the old one before the new one starts, requests wait meanwhile; empty lets them run beside each other, as by default."`
	NoTraffic      bool           `name:"no-traffic" help:"Leave the traffic where it is."`
	Tag            string         `name:"tag" placeholder:"T" help:"Make TAG---NAME lead to the new revision alone."`
	Force          bool           `name:"force" help:"Make a new revision even of what is deployed already."`
	waitFlags
}

// Run uploads, writes bound to what was read, and follows.
func (cmd *deployCmd) Run(c *call) error {
	if err := cmd.check(c); err != nil {
		return err
	}
	file, err := localFile(cmd.Command)
	if err != nil {
		return err
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	base, err := c.standing(cl, cmd.Name)
	if err != nil {
		return err
	}
	req, err := cmd.request(base, file)
	if err != nil {
		return err
	}
	if file != nil {
		if err := c.upload(cl, file); err != nil {
			return err
		}
	}
	resp, err := cl.Deploy(c.ctx, connect.NewRequest(req))
	if err != nil {
		return remote(err)
	}
	if resp.Msg.GetMessage() != "" {
		fmt.Fprintln(c.env.Stderr, plain(resp.Msg.GetMessage()))
	}
	if resp.Msg.GetUnchanged() {
		return c.unchanged(cl, cmd.Name, resp.Msg)
	}
	if attempt := attemptOf(req); !cmd.NoWait && cmd.Wait < attempt {
		fmt.Fprintf(c.env.Stderr, "--wait %s is shorter than an attempt may take to be ready (%s): this command may end before it is known how the deploy went\n",
			shortDuration(cmd.Wait), shortDuration(attempt))
	}
	return c.follow(cl, following{service: cmd.Name, generation: resp.Msg.GetGeneration(), verb: "deploy", wait: cmd.waitFlags})
}

// attemptOf is how long one attempt may take to be ready.
func attemptOf(req *fairleadv1.DeployRequest) time.Duration {
	return service.Template{ReadyTimeout: req.GetTemplate().GetReadyTimeout().AsDuration()}.ReadyDeadline()
}

// check refuses what is wrong without asking anybody.
func (cmd *deployCmd) check(c *call) error {
	if err := service.CheckServiceName(cmd.Name); err != nil {
		return err
	}
	if len(cmd.Command) > 0 && !c.dashed() {
		return fault.New(fault.Invalid, fmt.Sprintf("fairlead deploy %s -- %s", cmd.Name, shellWords(cmd.Command)), "the command must stand after --")
	}
	if cmd.Instances != nil && *cmd.Instances < 1 {
		return fault.New(fault.Invalid, "give 1 or more", "%d instances cannot be deployed", *cmd.Instances)
	}
	if cmd.Dir != nil && *cmd.Dir != "" && !filepath.IsAbs(*cmd.Dir) {
		// A relative folder is meant here, so here it must be.
		abs, err := filepath.Abs(*cmd.Dir)
		if err != nil {
			return fmt.Errorf("cannot find folder %s: %w", *cmd.Dir, err)
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			return fault.New(fault.Invalid, "give the absolute path that the folder has on the hosts", "there is no folder %s here", *cmd.Dir)
		}
		*cmd.Dir = abs
	}
	return nil
}

// standing is the desired document, or nil where there is none.
func (c *call) standing(cl *client, name string) (*fairleadv1.Service, error) {
	resp, err := cl.GetService(c.ctx, connect.NewRequest(&fairleadv1.GetServiceRequest{Service: name}))
	if err = remote(err); errors.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return resp.Msg.GetService(), nil
}

// request merges the flags with what stands.
func (cmd *deployCmd) request(base *fairleadv1.Service, file *artifact) (*fairleadv1.DeployRequest, error) {
	flags := service.DeployFlags{
		Command: cmd.Command, Env: cmd.Env, Dir: cmd.Dir, HostNames: cmd.HostName, ReadyPath: cmd.ReadyPath, User: cmd.User,
		Concurrency: cmd.Concurrency, RequestTimeout: cmd.RequestTimeout, Drain: cmd.Drain, ReadyTimeout: cmd.ReadyTimeout,
	}
	if file != nil {
		flags.Command = append([]string{filepath.Base(file.path)}, cmd.Command[1:]...)
		flags.Artifact = file.digest
	}
	t, hosts, err := flags.Merge(desiredOf(base))
	if err != nil {
		return nil, err
	}
	if cmd.RequestGroup != nil {
		t.Group = *cmd.RequestGroup
	}
	if cmd.Handover != nil {
		t.Handover = *cmd.Handover
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	req := &fairleadv1.DeployRequest{
		Service: cmd.Name, ExpectedGeneration: base.GetGeneration(), Template: templateTo(t), HostNames: hosts,
		NoTraffic: cmd.NoTraffic, Tag: cmd.Tag, Force: cmd.Force, By: whoami(),
	}
	if cmd.Instances != nil {
		req.Instances = *cmd.Instances
	}
	return req, nil
}

// whoami is the user at this machine, for the record.
func whoami() string {
	name := "uid " + fmt.Sprint(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// desiredOf is as much of the document as flags are merged with.
func desiredOf(s *fairleadv1.Service) *service.Desired {
	if s == nil {
		return nil
	}
	t := s.GetTemplate()
	return &service.Desired{
		Service: s.GetService(), Generation: s.GetGeneration(), Deleted: s.GetDeleted(), HostNames: s.GetHostNames(),
		Template: service.Template{
			Command: t.GetCommand(), Artifact: t.GetArtifact(), Env: t.GetEnv(), Dir: t.GetDir(), ReadyPath: t.GetReadyPath(), User: t.GetUser(),
			Concurrency: int(t.GetConcurrency()), RequestTimeout: t.GetRequestTimeout().AsDuration(), Drain: t.GetDrain().AsDuration(),
			ReadyTimeout: t.GetReadyTimeout().AsDuration(), Group: t.GetGroup(), Handover: t.GetHandover(), Idempotent: t.GetIdempotent(),
		},
	}
}

func templateTo(t service.Template) *fairleadv1.Template {
	return &fairleadv1.Template{
		Command: t.Command, Artifact: t.Artifact, Env: t.Env, Dir: t.Dir, ReadyPath: t.ReadyPath, User: t.User,
		Concurrency: int32(t.Concurrency), RequestTimeout: durationpb.New(t.RequestTimeout), Drain: durationpb.New(t.Drain),
		ReadyTimeout: durationpb.New(t.ReadyTimeout), Group: t.Group, Handover: t.Handover, Idempotent: t.Idempotent,
	}
}
