package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime/debug"
	"syscall"
)

// mapping is a shared mapping of a file from its beginning.
type mapping struct {
	f      *osFile
	mem    []byte // nil after Unmap
	err    error  // of the write that a fault met, after which there is none
	byCall bool   // a fault was met: mem is not touched any more
	behind int    // mem[:behind] was let go of
}

// mappingWindow is how much of what was written counts as the process's memory.
const mappingWindow = 2 << 20

// Map makes a mapping on linux only: elsewhere blocks can't be reserved, and
// a write into a hole on a full disk would end in a signal.
func (f *osFile) Map(size int64) (Mapping, error) {
	have, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size <= 0 || size > have || size > math.MaxInt {
		return nil, f.pathError("mmap", fs.ErrInvalid)
	}
	m := &mapping{f: f}
	err = f.control("mmap", func(fd uintptr) error {
		m.mem, err = syscall.Mmap(int(fd), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		return err
	})
	// ENODEV and EINVAL are the answers of file systems without mappings.
	// ENOMEM is a short address space: 32-bit processes, ulimit -v.
	for _, e := range []error{syscall.ENODEV, syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return nil, ErrUnsupported
		}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// WriteAt touches the mapping with faults turned into panics of this goroutine,
// where they would end the process otherwise. What a fault has met is written by
// a call, and so is everything after it.
func (m *mapping) WriteAt(p []byte, off int64) (n int, err error) {
	if m.err != nil {
		return 0, m.err
	}
	if off < 0 || off > int64(len(m.mem)) || len(p) > len(m.mem)-int(off) {
		return 0, m.f.pathError("write to mapping", fs.ErrInvalid)
	}
	if m.byCall {
		return m.writeByCall(p, off)
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			n, err = m.fault(r, p, off)
		}
	}()
	n = copy(m.mem[off:], p)
	if end := int(off) + n; end-m.behind >= 2*mappingWindow {
		m.letGo(end - mappingWindow)
	}
	return n, nil
}

// letGo takes what was written up to end out of the process's memory. It stays
// in the system's, and comes back if it is touched again.
func (m *mapping) letGo(end int) {
	end &^= mappingWindow - 1
	_ = syscall.Madvise(m.mem[m.behind:end], syscall.MADV_DONTNEED) // of a shared mapping: nothing is lost
	m.behind = end
}

// fault finds out why a copy of p to off has met the fault r; other panics go on.
// A bad block, a full disk under a hole or under a block that the file system
// must copy before it is written, and a file that somebody cut all look the same
// as a fault. A call that writes the same bytes says which of them it is, and if
// it works, the bytes are written.
func (m *mapping) fault(r any, p []byte, off int64) (int, error) {
	at, ok := r.(interface{ Addr() uintptr })
	if !ok {
		panic(r)
	}
	m.byCall = true
	// A call would make a file longer that was cut, and hide that.
	if size, err := m.f.Size(); err != nil || size < int64(len(m.mem)) {
		m.err = m.f.pathError("write to mapping", fmt.Errorf("fault at address %#x, in a file of %d bytes: %w", at.Addr(), size, syscall.EIO))
		return 0, m.err
	}
	return m.writeByCall(p, off)
}

// writeByCall writes p without the mapping. Its first error is final.
func (m *mapping) writeByCall(p []byte, off int64) (n int, err error) {
	n, err = m.f.WriteAt(p, off)
	if err != nil {
		m.err = err
	}
	return n, err
}

// Unmap may be called after a fault, and after the file was closed.
func (m *mapping) Unmap() error {
	if m.mem == nil {
		return m.f.pathError("munmap", fs.ErrClosed)
	}
	err := syscall.Munmap(m.mem)
	m.mem = nil
	if err != nil {
		return m.f.pathError("munmap", err)
	}
	return nil
}
