//go:build !unix

package filecache

// processLimit returns how many files the process may have open, if the system says so.
func processLimit() (limit uint64, ok bool) { return 0, false }
