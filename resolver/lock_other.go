//go:build !unix

package resolver

import "os"

// lockFile does nothing where files have no such locks.
func lockFile(*os.File) error { return nil }
