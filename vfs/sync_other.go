//go:build !linux

package vfs

// syncData is what package os takes for durable: F_FULLFSYNC on darwin, where
// fsync leaves the data in the drive's cache; FlushFileBuffers on windows.
func (f *osFile) syncData() error {
	return f.f.Sync()
}
