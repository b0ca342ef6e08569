//go:build !linux || arm

package vfs

func (f *osFile) startWriteBack(off, n int64) error { return ErrUnsupported }
