package cli

import (
	"bytes"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

type policyCmd struct {
	Get policyGetCmd `cmd:"" help:"Show the policy in force."`
	Set policySetCmd `cmd:"" help:"Declare a policy; a dangerous one is refused with the reason."`
}

type policyGetCmd struct {
	Name string `arg:"" help:"Name of the service."`
}

func (cmd *policyGetCmd) Run(c *call) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.GetPolicy(c.ctx, connect.NewRequest(&fairleadv1.GetPolicyRequest{Service: cmd.Name}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	return c.out.file(resp.Msg.GetPolicy(), resp.Msg.GetDeclared())
}

type policySetCmd struct {
	Name  string `arg:"" help:"Name of the service."`
	File  string `short:"f" name:"file" required:"" placeholder:"FILE|-" help:"File of the policy, or - for standard input. What it leaves out is as in the default."`
	Force bool   `name:"force" help:"Take a policy that is dangerous."`
}

func (cmd *policySetCmd) Run(c *call) error {
	m := &fairleadv1.ServicePolicy{}
	if err := c.readFile(cmd.File, "policy", "docs/reference/service-policy.md lists the fields that there are", m); err != nil {
		return err
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	resp, err := cl.SetPolicy(c.ctx, connect.NewRequest(&fairleadv1.SetPolicyRequest{Service: cmd.Name, Policy: m, Force: cmd.Force}))
	if err != nil {
		return remote(err)
	}
	if !c.out.table() {
		return c.out.message(resp.Msg)
	}
	plainFields(resp.Msg)
	return c.out.file(resp.Msg.GetPolicy(), true)
}

// readFile reads a message from a YAML file; a field that it does not have is
// refused by its name.
func (c *call) readFile(file, what, hint string, m proto.Message) error {
	text, _, err := documentFlag{file}.text(c)
	if err != nil {
		return err
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return fault.New(fault.Invalid, hint, "it is not YAML that can be read: %w", err)
	}
	if !bytes.HasPrefix(raw, []byte("{")) {
		return fault.New(fault.Invalid, hint, "it is no %s, which is fields with values: it is empty, a list or a single word", what)
	}
	if err := protojson.Unmarshal(raw, m); err != nil {
		return fault.New(fault.Invalid, hint, "it is no %s: %w", what, err)
	}
	return nil
}
