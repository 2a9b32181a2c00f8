package daemon

import (
	"os"
	"runtime/debug"
)

// tuneMemory trades a little processor time for memory: idle, a process holds
// mostly garbage of its start. GOGC says otherwise where it is set.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// releaseMemory gives back what only the start needed.
func releaseMemory() { debug.FreeOSMemory() }
