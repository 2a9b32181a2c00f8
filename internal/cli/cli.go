// Package cli is the command line: it speaks the public API, turns flags into
// requests and answers into text for people or JSON and YAML for programs. It
// holds no rule of the product but how flags merge, which the service package
// says. The roles that run in a process of their own are handed to [Roles].
// Read [Run] and [commands] first; each command has a file of its noun.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/fairlead-platform/fairlead/internal/fault"
	"github.com/fairlead-platform/fairlead/internal/service"
)

// Exit codes.
const (
	ExitDone        = 0
	ExitFailed      = 1 // it failed; a failed deploy leaves what served before serving
	ExitRefused     = 2 // wrong usage, or refused input; nothing was changed
	ExitUnreachable = 3 // the API cannot be reached
	ExitUnknown     = 4 // too little is known to say
)

const exitCodes = "Exit codes: 0 done; 1 it failed (a failed deploy leaves the earlier revision serving); " +
	"2 wrong usage or refused input, nothing was changed; 3 the API cannot be reached; 4 too little is known to say."

// Env is what a command line runs in.
type Env struct {
	Args           []string  // without the program's name
	Stdin          io.Reader // nil means the process's own
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Roles          Roles
}

// commands is the whole command line.
type commands struct {
	API    string `name:"api" env:"FAIRLEAD_API" placeholder:"ADDR" help:"Address of the API: HOST:PORT, or the path of a socket. Default: the socket of the data folder, else 127.0.0.1:7700."`
	Data   string `name:"data" env:"FAIRLEAD_DATA" placeholder:"DIR" help:"Data folder. Default: /var/lib/fairlead as root, else $XDG_DATA_HOME/fairlead."`
	Output string `short:"o" name:"output" enum:"table,json,yaml" default:"table" help:"Form of what is printed: ${enum}."`

	ShowVersion kong.VersionFlag `name:"version" help:"Show the version of this program."`

	Up      upCmd      `cmd:"" group:"roles" help:"Run everything in one process."`
	Control controlCmd `cmd:"" group:"roles" help:"Run the control plane."`
	Gateway gatewayCmd `cmd:"" group:"roles" help:"Run a gateway."`
	Host    hostCmd    `cmd:"" group:"roles" help:"Run a host of instances."`
	Prober  proberCmd  `cmd:"" group:"roles" help:"Run a prober, which looks at instances."`
	Agent   agentCmd   `cmd:"" group:"roles" help:"Run an agent: the views that callers pick by, for programs of any language on this machine."`
	Relay   relayCmd   `cmd:"" group:"roles" help:"Run a relay, which serves views to callers and takes their reports."`

	Deploy      deployCmd      `cmd:"" group:"services" help:"Deploy a service, or a new revision of it."`
	Apply       applyCmd       `cmd:"" group:"services" help:"Make services what documents say."`
	Diff        diffCmd        `cmd:"" group:"services" help:"Compare what is wanted with documents; exit with 1 where they differ."`
	Get         getCmd         `cmd:"" group:"services" help:"Show what is wanted: all services, or one."`
	Status      statusCmd      `cmd:"" group:"services" help:"Show what is wanted, true, published and running."`
	Revisions   revisionsCmd   `cmd:"" group:"services" help:"List the revisions of a service."`
	Scale       scaleCmd       `cmd:"" group:"services" help:"Change the number of instances."`
	Restart     restartCmd     `cmd:"" group:"services" help:"Replace every instance, one by one."`
	Traffic     trafficCmd     `cmd:"" group:"services" help:"Divide the traffic among revisions, or move tags."`
	Rollback    rollbackCmd    `cmd:"" group:"services" help:"Send all traffic to what served before, with its configuration."`
	Abort       abortCmd       `cmd:"" group:"services" help:"End what is in progress: it is undone and not tried again."`
	Pause       pauseCmd       `cmd:"" group:"services" help:"Have what is in progress hold before its next step."`
	Resume      resumeCmd      `cmd:"" group:"services" help:"End a pause."`
	Delete      deleteCmd      `cmd:"" group:"services" help:"Withdraw, stop and forget a service."`
	Explain     explainCmd     `cmd:"" group:"services" help:"Say what each record and each part of the world says, where they differ, which wins and why, and what to do; of one instance, why it is believed to be what it is."`
	Instances   instancesCmd   `cmd:"" group:"services" help:"Show what is believed of each instance, since when, and by which rule."`
	Resolve     resolveCmd     `cmd:"" group:"services" help:"Show the view that callers of a service pick by."`
	History     historyCmd     `cmd:"" group:"services" help:"Show every change of what was believed of instances, and why."`
	Drill       drillCmd       `cmd:"" group:"services" help:"Exercise on the running system what is claimed of it."`
	Routes      routesCmd      `cmd:"" group:"services" help:"Show who may route a service's requests, by which route table or view, and until when each may route otherwise than is in force."`
	Subscribers subscribersCmd `cmd:"" group:"services" help:"Show who routes by a service's view, by which version, and who is behind."`
	Propagation propagationCmd `cmd:"" group:"services" help:"Show how soon those who route by a service's view acknowledged its changes, against what is promised."`
	Flaps       flapsCmd       `cmd:"" group:"services" help:"Show which instances came and went too often, and the changes that earned it."`
	Contract    contractCmd    `cmd:"" group:"services" help:"How the health of a service's instances is read."`
	Policy      policyCmd      `cmd:"" group:"services" help:"What an owner decides about a service: the guard, the ramp, zones, who may call."`
	Guard       guardCmd       `cmd:"" group:"services" help:"Decide about a fraction guard that waits for a person."`
	Register    registerCmd    `cmd:"" group:"services" help:"Register an instance that nothing watches, and renew its lease until told to end."`
	External    externalCmd    `cmd:"" group:"services" help:"Services of somebody else's, whose health only their callers tell."`
	Logs        logsCmd        `cmd:"" group:"services" help:"Show what the instances wrote."`
	Events      eventsCmd      `cmd:"" group:"services" help:"Show the history of a service."`

	Token       tokenCmd       `cmd:"" group:"installation" help:"Tokens by which hosts, gateways, probers, relays and agents join."`
	Identity    identityCmd    `cmd:"" group:"installation" help:"Identities of callers outside our hosts."`
	Gateways    gatewaysCmd    `cmd:"" group:"installation" help:"List the known gateways, or retire one."`
	Hosts       hostsCmd       `cmd:"" group:"installation" help:"List the known hosts, drain one, or retire one."`
	Probers     probersCmd     `cmd:"" group:"installation" help:"List who looks at instances, and who of them is silent or suspect."`
	DiffRuntime diffRuntimeCmd `cmd:"" name:"diff-runtime" group:"installation" help:"Compare, row by row, what runs by its authorities' word with the registry; exit with 1 where they differ or one does not answer."`
	Info        infoCmd        `cmd:"" group:"installation" help:"Show who leads, and what the store guarantees."`
	Version     versionCmd     `cmd:"" group:"installation" help:"Show the version of this program."`

	Reference referenceCmd `cmd:"" hidden:"" help:"Write the reference of the command line."`
}

// call is one running command line.
type call struct {
	ctx  context.Context
	env  Env
	opts *commands
	out  *printer
}

// exitError ends the command with a code, its text being said already.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// Run runs one command line and returns its exit code.
func Run(ctx context.Context, env Env) int {
	if env.Stdin == nil {
		env.Stdin = os.Stdin
	}
	var opts commands
	exited := -1
	parser, err := kong.New(&opts,
		kong.Name("fairlead"),
		kong.Description("Deploys services, and keeps every caller routed.\n\n"+exitCodes),
		kong.Vars{"version": thisVersion().String()},
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, Summary: true}),
		kong.ExplicitGroups([]kong.Group{{Key: "services", Title: "Services"}, {Key: "roles", Title: "Roles"}, {Key: "installation", Title: "Installation"}}),
	)
	if err != nil {
		return say(env, err)
	}
	if len(env.Args) == 0 {
		env.Args = []string{"--help"}
	}
	kctx, err := parser.Parse(env.Args)
	if exited >= 0 { // help or the version was asked for
		return exited
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "fairlead: %v\n%s\n", err, usageHint(err, env.Args))
		return ExitRefused
	}
	if opts.Data == "" {
		opts.Data = DefaultData(env.Getenv, os.Geteuid())
	}
	if opts.Data, err = filepath.Abs(opts.Data); err != nil { // it is printed for other terminals, and kept on disk
		return say(env, fmt.Errorf("cannot find the data folder: %w", err))
	}
	c := &call{ctx: ctx, env: env, opts: &opts, out: newPrinter(env, opts.Output)}
	return say(env, kctx.Run(c))
}

// DefaultData is the data folder where none is named.
func DefaultData(getenv func(string) string, uid int) string {
	if uid == 0 {
		return "/var/lib/fairlead"
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "fairlead")
	}
	return filepath.Join(getenv("HOME"), ".local", "share", "fairlead")
}

// say tells an error and what to do about it, and returns the exit code.
func say(env Env, err error) int {
	if err == nil {
		return ExitDone
	}
	var exit exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	fmt.Fprintln(env.Stderr, "fairlead: "+plain(err.Error()))
	hint := fault.HintOf(err)
	var input *service.InputError
	if errors.As(err, &input) {
		hint = input.Hint
	}
	if hint != "" {
		fmt.Fprintln(env.Stderr, "  "+plain(hint))
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var input *service.InputError
	if errors.As(err, &input) {
		return ExitRefused
	}
	if unreachable(err) {
		return ExitUnreachable
	}
	switch fault.CodeOf(err) {
	case fault.Invalid, fault.NotFound, fault.Conflict, fault.Exists, fault.Forbidden, fault.Unauthenticated:
		return ExitRefused
	}
	return ExitFailed
}

// usageHint says what to do about a command line that cannot be read.
func usageHint(err error, args []string) string {
	help := "fairlead"
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		node := wrong.Context.Selected()
		for node != nil && !slices.Contains(args, node.Name) { // a command that goes without saying
			node = node.Parent
		}
		if node != nil {
			help = node.FullPath()
		}
	}
	at := slices.Index(args, "deploy")
	if at < 0 || slices.Contains(args, "--") {
		return nameless(wrong) + fmt.Sprintf("Try `%s --help`.", help)
	}
	// The first two words after deploy are taken for the name and the program.
	words := 0
	for i, a := range args[at+1:] {
		if strings.HasPrefix(a, "-") {
			break
		}
		if words++; words == 2 {
			i += at + 1
			return "  the command stands after --: fairlead " + shellWords(args[:i]) + " -- " + shellWords(args[i:])
		}
	}
	return "Try `fairlead deploy --help`; the command, if you give one, stands after --."
}

// nameless says how to find the name that a command was not given; empty where
// that is not what is wrong.
func nameless(wrong *kong.ParseError) string {
	if wrong == nil || wrong.Context == nil || wrong.Context.Selected() == nil {
		return ""
	}
	node := wrong.Context.Selected()
	if len(node.Positional) == 0 || !strings.Contains(wrong.Error(), "<"+node.Positional[0].Name+">") {
		return ""
	}
	for what, lists := range map[string]string{"service": "get", "gateway": "gateways", "host": "hosts"} {
		if strings.HasPrefix(node.Positional[0].Help, "Name of the "+what) {
			return fmt.Sprintf("Name the %s: %s NAME; `fairlead %s` lists them. ", what, node.FullPath(), lists)
		}
	}
	return ""
}

// isTerminal says whether w shows to a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// dashed says whether "--" stands on the command line.
func (c *call) dashed() bool { return slices.Contains(c.env.Args, "--") }

func joinLines(lines []string, indent string) string {
	return indent + strings.Join(lines, "\n"+indent)
}
