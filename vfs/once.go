package vfs

// A WriteOnce is a File that takes each byte once: a byte that was written may only be written
// again with the same value. Bytes that were never written may read as anything, not only as
// zeros, if they are less than 16 bytes away from one that was. Files of package crypt are such.
type WriteOnce interface {
	// Renew makes all bytes of the file ones that were never written, and keeps its size and its
	// blocks. A crash leaves the file as it was, or renewed, until a Sync.
	Renew() error
}

// AsWriteOnce returns the file as a [WriteOnce], if it is one,
// or lies over one, as the files of package faultfs do.
func AsWriteOnce(f File) (once WriteOnce, ok bool) {
	for {
		switch file := f.(type) {
		case WriteOnce:
			return file, true
		case interface{ Unwrap() File }:
			f = file.Unwrap()
		default:
			return nil, false
		}
	}
}
