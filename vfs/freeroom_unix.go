//go:build linux || darwin || freebsd

package vfs

import "syscall"

// FreeRoom returns how many bytes this process can still write to the disk that dir is on. ok is false if the system
// does not say.
func FreeRoom(dir string) (free int64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
