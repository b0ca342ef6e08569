//go:build !linux

package vfs

// syncData calls Sync of package os: F_FULLFSYNC on darwin, where fsync
// leaves the data in the drive's cache, and FlushFileBuffers on windows.
func (f *osFile) syncData() error {
	return f.f.Sync()
}
