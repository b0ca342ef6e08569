package vfs

import "syscall"

// syncData calls fdatasync, which does not write times. Measured
// on ext4, a sync takes 104 µs after a write over existing blocks,
// 293 µs in a preallocated file, and 409 µs when the file grows.
func (f *osFile) syncData() error {
	return f.control("fdatasync", func(fd uintptr) error { return syscall.Fdatasync(int(fd)) })
}
