// Command fairlead deploys services and keeps every caller routed.
package main

import (
	"os"

	"github.com/fairlead-platform/fairlead/internal/cli"
	"github.com/fairlead-platform/fairlead/internal/daemon"
)

func main() {
	ctx, cancel := daemon.Signals()
	code := cli.Run(ctx, cli.Env{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Roles: daemon.Roles{}})
	cancel()
	os.Exit(code)
}
