//go:build unix

package usage

import "golang.org/x/sys/unix"

// SyncAll has the operating system write what is dirty, so that one process
// does not pay for the one before it.
func SyncAll() { unix.Sync() }
