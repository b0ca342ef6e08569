//go:build !(linux && !android && (amd64 || arm64 || loong64 || riscv64))

package vfs

// TryReadAt implements TryReader: this system can't tell what is in memory.
func (f *osFile) TryReadAt(p []byte, off int64) error { return ErrUnsupported }

// WillNeed implements TryReader.
func (f *osFile) WillNeed(off, n int64) {}
