package vfs

import "io"

// A RemoteFile is a File most of whose bytes are on another machine, such as an object of a bucket. It can be read like any
// other; with these methods a caller saves requests. No file of this package is one.
type RemoteFile interface {
	// Stream returns a view of the file for one goroutine that reads the bytes up to end from front to back, each about
	// once. They are fetched in long pieces, and some of them ahead. It returns nil if there is nothing to gain. The
	// caller closes the stream, which ends what is under way for it. It may be used after Close of the file.
	Stream(end int64) Stream
	// ReadNear fills p from offset off if these bytes are on this machine, and if each read compares them with a
	// checksum: they are those that were written, or there is an error. With ErrUnsupported, nothing was read, because
	// they are elsewhere or nobody checks them.
	ReadNear(p []byte, off int64) error
	// Refetch drops what was fetched of the file, because some of it is not what was written: it may have changed on
	// its way, and the next read asks for it again. With ErrUnsupported, the file is on this machine.
	Refetch() error
}

// A Stream reads a part of a RemoteFile: see there.
type Stream interface {
	io.ReaderAt
	io.Closer
}
