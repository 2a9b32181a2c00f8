package cli

import (
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// AgentSocket is the agent's socket within the data folder.
const AgentSocket = "agent.sock"

type agentCmd struct {
	Name      string            `name:"name" help:"Name that it is known by. Default: that of its identity."`
	Control   []string          `name:"control" aliases:"plane" env:"FAIRLEAD_PLANE" placeholder:"ADDR" default:"127.0.0.1:7700" help:"Addresses of control or relays. Default: ${default}."`
	Identity  string            `name:"identity" env:"FAIRLEAD_IDENTITY" placeholder:"DIR" help:"Folder of the identity to show, as fairlead identity caller makes it. Or join by a token."`
	Token     string            `name:"token" env:"FAIRLEAD_TOKEN" help:"Token to join by, the first time: fairlead token create --role agent."`
	TokenFile string            `name:"token-file" placeholder:"FILE" help:"File that holds the token; read again at each attempt."`
	Socket    string            `name:"socket" placeholder:"PATH" help:"UNIX socket to be asked on; who asks is known by the user of its process. Default: agent.sock in the data folder."`
	Listen    string            `name:"listen" placeholder:"ADDR" default:"127.0.0.1:7720" help:"Loopback port to be asked on, where --tokens says by which tokens. Default: ${default}."`
	Workloads map[string]string `name:"workload" placeholder:"NAME=USER" help:"Workload that is known by the user of its process, by number or name. May be repeated. Default: every local user is one."`
	Tokens    string            `name:"tokens" placeholder:"FILE" help:"File with lines of WORKLOAD TOKEN, for the loopback port."`
	Zone      string            `name:"zone" env:"FAIRLEAD_ZONE" placeholder:"ZONE" help:"Zone that it stands in, whose endpoints are preferred."`
	Ops       string            `name:"ops" placeholder:"ADDR" default:"127.0.0.1:7706" help:"Where /healthz, /readyz and /metrics are served. Default: ${default}."`
	logFlags
}

func (cmd *agentCmd) Run(c *call) error {
	workloads, err := cmd.workloads()
	if err != nil {
		return err
	}
	return started(c.env.Roles.Agent(c.ctx, AgentOptions{
		Process: c.process(cmd.logFlags), Joining: Joining{Name: cmd.Name, Control: cmd.Control, Token: cmd.Token, TokenFile: cmd.TokenFile},
		Identity: cmd.Identity, Socket: orDefault(cmd.Socket, filepath.Join(c.opts.Data, AgentSocket)), Listen: cmd.Listen, Ops: cmd.Ops, Zone: cmd.Zone,
		Workloads: workloads, Tokens: cmd.Tokens,
	}))
}

// workloads by user; nil where none is named.
func (cmd *agentCmd) workloads() (map[uint32]string, error) {
	if len(cmd.Workloads) == 0 {
		return nil, nil
	}
	out := map[uint32]string{} // :: user id → workload
	for name, who := range cmd.Workloads {
		id, err := strconv.ParseUint(who, 10, 32)
		if err != nil {
			u, uerr := user.Lookup(who)
			if uerr != nil {
				return nil, fault.New(fault.Invalid, "name a user of this machine, or its number: --workload "+name+"=1000", "workload %s: there is no user %q here", name, who)
			}
			if id, err = strconv.ParseUint(u.Uid, 10, 32); err != nil {
				return nil, fault.New(fault.Invalid, "", "workload %s: user %q has no number: %w", name, who, err)
			}
		}
		if other, taken := out[uint32(id)]; taken {
			return nil, fault.New(fault.Invalid, "give each workload a user of its own", "workloads %s and %s are both of user %s", other, name, who)
		}
		out[uint32(id)] = name
	}
	return out, nil
}
