//go:build !linux

package vfs

// allocate is not supported. To write zeros instead would write every byte of the log twice.
func (f *osFile) allocate(int64) error {
	return ErrUnsupported
}
