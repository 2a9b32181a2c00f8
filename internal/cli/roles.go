package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/fairlead-platform/fairlead/internal/fault"
)

// Roles runs what is a long-running part and no client of the API. Each call
// returns when its context or the role ends; an error is told to the user.
type Roles interface {
	Up(ctx context.Context, o UpOptions) error
	Control(ctx context.Context, o ControlOptions) error
	Gateway(ctx context.Context, o GatewayOptions) error
	Host(ctx context.Context, o HostOptions) error
	Prober(ctx context.Context, o ProberOptions) error
	Agent(ctx context.Context, o AgentOptions) error
	Relay(ctx context.Context, o RelayOptions) error
}

// Process is what every role has.
type Process struct {
	Data           string // folder
	Stdout, Stderr io.Writer
	Version        string
	LogLevel       string // debug, info, warn or error
	LogFormat      string // text or json
	Pprof          bool   // profiles on the ops port also where others than this machine reach it
}

// Plane is where the control plane keeps what it keeps, and what it asks for.
// Empty fields of the first are folders of the data folder.
type Plane struct {
	Store     string // a PostgreSQL URL; empty is the embedded store
	Authority string // folder
	Bucket    string // folder
	// Advertise is where others reach the API; empty is where it listens.
	Advertise string
	// NewAuthority leads under this authority though the store knows another.
	NewAuthority bool
	// ReadyDwell is how long an instance must be live without a break to be
	// ready; zero means 3 s.
	ReadyDwell time.Duration
	// MaxArtifacts is how many bytes of artifacts are stored before those that
	// nothing names are collected early; zero means without a bound.
	MaxArtifacts int64
}

// UpOptions of `fairlead up`. A port of 0 picks one.
type UpOptions struct {
	Process
	Plane
	API, Ops, Gateway, Poll string
	Zones                   []string // one host in each; none means one host
	KeepInstances           bool
	Drain                   time.Duration // of the gateway's requests; zero means 30 s
	BodyTimeout             time.Duration // of the gateway's requests; zero means 20 s
}

// ControlOptions of `fairlead control`.
type ControlOptions struct {
	Process
	Plane
	API, Ops string
}

// Joining is what a role of a fleet has to reach control.
type Joining struct {
	Name      string
	Control   []string
	Token     string
	TokenFile string // read again at each attempt
}

// GatewayOptions of `fairlead gateway`.
type GatewayOptions struct {
	Process
	Joining
	Listen, Poll, Ops string
	Zone              string // empty prefers none
	Drain             time.Duration
	BodyTimeout       time.Duration // zero means 20 s
}

// HostOptions of `fairlead host`.
type HostOptions struct {
	Process
	Joining
	Zone, Ops, Advertise string
	KeepInstances        bool
	// Leave is how long at most other hosts are given to take what runs.
	Leave time.Duration
}

// ProberOptions of `fairlead prober`.
type ProberOptions struct {
	Process
	Joining
	Zone, Ops string
}

// AgentOptions of `fairlead agent`.
type AgentOptions struct {
	Process
	Joining
	// Identity is a folder, of one that needs no token.
	Identity string
	// Socket and Listen are where it is asked; the port only where there are tokens.
	Socket, Listen, Ops string
	Zone                string
	// Workloads by the user of their process; nil takes every local user.
	Workloads map[uint32]string // :: user id → workload
	// Tokens is a file with lines of WORKLOAD TOKEN; empty has none.
	Tokens string
}

// RelayOptions of `fairlead relay`.
type RelayOptions struct {
	Process
	Joining
	Listen, Advertise, Ops string
	Drain                  time.Duration // how long at most the end waits until subscribers are elsewhere
}

type logFlags struct {
	LogLevel  string `name:"log-level" enum:"debug,info,warn,error" default:"info" help:"What is logged: ${enum}."`
	LogFormat string `name:"log-format" enum:"text,json" default:"text" help:"Form of the log on standard error: ${enum}."`
	Pprof     bool   `name:"pprof" help:"Serve /debug/pprof/ on the ops port though others than this machine reach it."`
}

func (c *call) process(l logFlags) Process {
	return Process{Data: c.opts.Data, Stdout: c.env.Stdout, Stderr: c.env.Stderr, Version: version, LogLevel: l.LogLevel, LogFormat: l.LogFormat, Pprof: l.Pprof}
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

type dwellFlag struct {
	ReadyDwell time.Duration `name:"ready-dwell" placeholder:"3s" default:"3s" help:"How long an instance must be live without a break to be ready. Shorter finds less of what fails soon after its start. Default: ${default}."`
}

type artifactsFlag struct {
	MaxArtifacts uint32 `name:"max-artifacts" placeholder:"MIB" default:"10240" help:"How much room artifacts may take, in MiB, before those that no kept revision names are deleted early, the oldest first; 0 is without a bound. Default: ${default}."`
}

func (f artifactsFlag) bytes() int64 { return int64(f.MaxArtifacts) << 20 }

// Validate is called by the parser.
func (d dwellFlag) Validate() error {
	if d.ReadyDwell <= 0 {
		return errors.New("--ready-dwell must be longer than nothing")
	}
	return nil
}

type storeFlag struct {
	Store string `name:"store" env:"FAIRLEAD_STORE" placeholder:"URL" help:"PostgreSQL database that keeps what is wanted and true, as postgres://USER@HOST/DATABASE. Default: the embedded store of the data folder."`
}

// started gives the error of a role its exit code: what it needs and cannot
// reach is told like an API that cannot be reached.
func started(err error) error {
	if fault.CodeOf(err) == fault.Unavailable {
		return &unreachableError{err}
	}
	return err
}

type bodyFlag struct {
	BodyTimeout time.Duration `name:"body-timeout" placeholder:"20s" default:"20s" help:"How long the body of a request may pause; after as long it must also have come at 500 bytes a second. What is slower is answered 408, unless its response has begun. Default: ${default}."`
}

// Validate is called by the parser.
func (b bodyFlag) Validate() error {
	if b.BodyTimeout <= 0 {
		return errors.New("--body-timeout must be longer than nothing")
	}
	return nil
}

type upCmd struct {
	storeFlag
	dwellFlag
	artifactsFlag
	bodyFlag
	Gateway       string        `name:"gateway" placeholder:"ADDR" default:"127.0.0.1:8080" help:"Where requests come. Default: ${default}."`
	Poll          string        `name:"poll" placeholder:"ADDR" default:"127.0.0.1:7702" help:"Where hosts dial the gateway. Default: ${default}."`
	Ops           string        `name:"ops" placeholder:"ADDR" default:"127.0.0.1:7701" help:"Where /healthz, /readyz and /metrics are served. Default: ${default}."`
	Zones         []string      `name:"zones" placeholder:"a,b,c" help:"Run a host and a prober in each of these zones."`
	KeepInstances bool          `name:"keep-instances" help:"Leave instances running at the end; the next up adopts them."`
	Drain         time.Duration `name:"drain" default:"30s" help:"How long requests in flight may go on at the end."`
	LogLevel      string        `name:"log-level" enum:"debug,info,warn,error" default:"warn" help:"What is logged: ${enum}. Default: ${default}."`
	LogFormat     string        `name:"log-format" enum:"text,json" default:"text" help:"Form of the log on standard error: ${enum}."`
	Pprof         bool          `name:"pprof" help:"Serve /debug/pprof/ on the ops port though others than this machine reach it."`
}

func (cmd *upCmd) Run(c *call) error {
	return started(c.env.Roles.Up(c.ctx, UpOptions{
		Process: c.process(logFlags{cmd.LogLevel, cmd.LogFormat, cmd.Pprof}), Plane: Plane{Store: cmd.Store, ReadyDwell: cmd.ReadyDwell, MaxArtifacts: cmd.bytes()}, API: orDefault(c.opts.API, DefaultAPI), Ops: cmd.Ops, Gateway: cmd.Gateway, Poll: cmd.Poll,
		Zones: cmd.Zones, KeepInstances: cmd.KeepInstances, Drain: cmd.Drain, BodyTimeout: cmd.BodyTimeout,
	}))
}

type controlCmd struct {
	storeFlag
	dwellFlag
	artifactsFlag
	Authority    string `name:"authority" placeholder:"DIR" help:"Folder of the key that signs identities; all controls of one store have the same, shared or copied. Default: authority in the data folder."`
	Bucket       string `name:"bucket" placeholder:"DIR" help:"Folder of the artifacts; all controls of one store share it. Default: bucket in the data folder."`
	Advertise    string `name:"advertise" placeholder:"ADDR" help:"Where other controls and gateways reach the API. Default: where it listens."`
	NewAuthority bool   `name:"new-authority" help:"Lead under this authority though the store was led under another: roles join again by new tokens."`
	Ops          string `name:"ops" placeholder:"ADDR" default:"127.0.0.1:7701" help:"Where /healthz, /readyz and /metrics are served. Default: ${default}."`
	logFlags
}

func (cmd *controlCmd) Run(c *call) error {
	return started(c.env.Roles.Control(c.ctx, ControlOptions{
		Process: c.process(cmd.logFlags), API: orDefault(c.opts.API, DefaultAPI), Ops: cmd.Ops,
		Plane: Plane{Store: cmd.Store, Authority: cmd.Authority, Bucket: cmd.Bucket, Advertise: cmd.Advertise, NewAuthority: cmd.NewAuthority, ReadyDwell: cmd.ReadyDwell, MaxArtifacts: cmd.bytes()},
	}))
}

type joinFlags struct {
	Name      string   `name:"name" required:"" help:"Name that it is known by."`
	Control   []string `name:"control" placeholder:"ADDR" default:"127.0.0.1:7700" help:"Addresses of control. Default: ${default}."`
	Token     string   `name:"token" env:"FAIRLEAD_TOKEN" help:"Token to join by, the first time."`
	TokenFile string   `name:"token-file" placeholder:"FILE" help:"File that holds the token; read again at each attempt."`
}

func (j joinFlags) joining() Joining {
	return Joining(j)
}

type gatewayCmd struct {
	joinFlags
	bodyFlag
	Listen string        `name:"listen" placeholder:"ADDR" default:"127.0.0.1:8080" help:"Where requests come. Default: ${default}."`
	Poll   string        `name:"poll" placeholder:"ADDR" default:"127.0.0.1:7702" help:"Where hosts dial it; the address that they can reach. Default: ${default}."`
	Ops    string        `name:"ops" placeholder:"ADDR" default:"127.0.0.1:7703" help:"Where /healthz, /readyz and /metrics are served. Default: ${default}."`
	Zone   string        `name:"zone" env:"FAIRLEAD_ZONE" placeholder:"ZONE" help:"Zone that it stands in, whose instances are preferred; none prefers none."`
	Drain  time.Duration `name:"drain" default:"30s" help:"How long requests in flight may go on at the end."`
	logFlags
}

func (cmd *gatewayCmd) Run(c *call) error {
	return c.env.Roles.Gateway(c.ctx, GatewayOptions{
		Process: c.process(cmd.logFlags), Joining: cmd.joining(), Listen: cmd.Listen, Poll: cmd.Poll, Ops: cmd.Ops, Zone: cmd.Zone, Drain: cmd.Drain, BodyTimeout: cmd.BodyTimeout,
	})
}

type hostCmd struct {
	joinFlags
	Zone          string        `name:"zone" default:"default" help:"Zone that it stands in."`
	Advertise     string        `name:"advertise" placeholder:"IP" default:"127.0.0.1" help:"Address at which gateways reach its instances. Default: ${default}."`
	Ops           string        `name:"ops" placeholder:"ADDR" default:"127.0.0.1:7704" help:"Where /healthz, /readyz and /metrics are served. Default: ${default}."`
	KeepInstances bool          `name:"keep-instances" help:"Leave instances running at the end; the next start adopts them."`
	DrainTimeout  time.Duration `name:"drain-timeout" default:"60s" help:"How long at most the end waits until other hosts serve what runs here; 0 stops it at once. Default: ${default}."`
	logFlags
}

func (cmd *hostCmd) Run(c *call) error {
	return c.env.Roles.Host(c.ctx, HostOptions{
		Process: c.process(cmd.logFlags), Joining: cmd.joining(), Zone: cmd.Zone, Advertise: cmd.Advertise, Ops: cmd.Ops, KeepInstances: cmd.KeepInstances, Leave: cmd.DrainTimeout,
	})
}

type proberCmd struct {
	joinFlags
	Zone string `name:"zone" default:"default" help:"Zone that it stands in, and looks at."`
	Ops  string `name:"ops" placeholder:"ADDR" default:"127.0.0.1:7705" help:"Where /healthz, /readyz and /metrics are served. Default: ${default}."`
	logFlags
}

func (cmd *proberCmd) Run(c *call) error {
	return c.env.Roles.Prober(c.ctx, ProberOptions{Process: c.process(cmd.logFlags), Joining: cmd.joining(), Zone: cmd.Zone, Ops: cmd.Ops})
}

type relayCmd struct {
	joinFlags
	Listen    string        `name:"listen" placeholder:"ADDR" default:"127.0.0.1:7710" help:"Where callers subscribe and report. Default: ${default}."`
	Advertise string        `name:"advertise" placeholder:"ADDR" help:"Where callers reach it, as they are told. Default: where it listens."`
	Ops       string        `name:"ops" placeholder:"ADDR" default:"127.0.0.1:7707" help:"Where /healthz, /readyz and /metrics are served. Default: ${default}."`
	Drain     time.Duration `name:"drain-timeout" default:"60s" help:"How long at most the end waits until subscribers are with other relays; 0 sends them away at once. Default: ${default}."`
	logFlags
}

func (cmd *relayCmd) Run(c *call) error {
	return c.env.Roles.Relay(c.ctx, RelayOptions{
		Process: c.process(cmd.logFlags), Joining: cmd.joining(), Listen: cmd.Listen, Advertise: cmd.Advertise, Ops: cmd.Ops, Drain: cmd.Drain,
	})
}
