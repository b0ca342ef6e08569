//go:build !linux

package vfs

// Map is supported on linux only: see mapping_linux.go.
func (f *osFile) Map(int64) (Mapping, error) {
	return nil, ErrUnsupported
}
