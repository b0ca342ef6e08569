package vfs

import "syscall"

// syncData is fdatasync, which leaves out times. Measured on ext4: 104 µs over
// written blocks, 293 µs in a preallocated file, 409 µs when the file grows.
func (f *osFile) syncData() error {
	return f.control("fdatasync", func(fd uintptr) error { return syscall.Fdatasync(int(fd)) })
}
