package vfs

import "errors"

// ErrWouldWait says that TryReadAt has read nothing, because it would have to wait for the device.
var ErrWouldWait = errors.New("the bytes are not in memory")

// A TryReader is a File that can begin a read without waiting for it. A caller that needs
// bytes of several files reads those that are in memory, asks for all others, and only then
// waits for the first of them. So it waits about as long as for one read.
type TryReader interface {
	// TryReadAt fills p from offset off, like ReadAt, if the system has the bytes in memory. If
	// not, the error is ErrWouldWait, and p may hold anything. With ErrUnsupported, the system
	// can't tell. Any other error is that of a read, which ReadAt may not meet again. It returns
	// io.ErrUnexpectedEOF if the file ends before p is full.
	TryReadAt(p []byte, off int64) error
	// WillNeed asks the system to load n bytes from off up into memory, and does not wait until
	// they are there. It is advice: a system without it does nothing. A ReadAt returns the errors.
	WillNeed(off, n int64)
}
