package cli

import (
	"fmt"
	"runtime"
)

// version is set by the build; it is never changed.
var version = "dev"

type programVersion struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisVersion() programVersion {
	return programVersion{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

func (v programVersion) String() string {
	return fmt.Sprintf("fairlead %s %s %s", v.Version, v.Go, v.Platform)
}

type versionCmd struct{}

func (cmd *versionCmd) Run(c *call) error {
	if !c.out.table() {
		return c.out.value(thisVersion())
	}
	c.out.line("%s", thisVersion())
	return nil
}
