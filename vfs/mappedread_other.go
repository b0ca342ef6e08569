//go:build !(linux && !android && (amd64 || arm64 || loong64 || riscv64))

package vfs

// A mappedReads does nothing here: all reads are calls.
type mappedReads struct{}

func (*mappedReads) read(*osFile, []byte, int64) bool { return false }
func (*mappedReads) note(*osFile, int64, int)         {}
func (*mappedReads) stop()                            {}
