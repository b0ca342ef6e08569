//go:build !linux

package vfs

// allocate is not emulated by writing zeros: that would write the log twice.
func (f *osFile) allocate(int64) error {
	return ErrUnsupported
}
