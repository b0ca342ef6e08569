//go:build unix

package filecache

import "syscall"

// processLimit returns how many files the process may have open, if the system says so.
func processLimit() (limit uint64, ok bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), err == nil
}
