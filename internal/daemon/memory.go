package daemon

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the small heap of a process grow to five times what lives
// before it is collected. A gateway under load makes garbage with every request:
// at the usual 100 it collects so often that the requests which help the
// collector are the slowest ones (bench/RESULTS.md). Idle memory stays low,
// since it is given back after the start.
const gcPercent = 400

// tuneMemory sets gcPercent, unless GOGC says otherwise.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// releaseMemory gives back what only the start needed.
func releaseMemory() { debug.FreeOSMemory() }
