package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime/debug"
	"syscall"
)

// A mapping is a shared mapping of a file from its beginning.
type mapping struct {
	f      *osFile
	mem    []byte // nil after Unmap
	err    error  // the first error of a write: all later writes fail with it
	byCall bool   // a write met a fault: mem is not touched any more
	behind int    // mem[:behind] was given back: see letGo
}

// mappingWindow is how many of the bytes written last stay in the process's memory.
const mappingWindow = 2 << 20

// Map works on linux only. Elsewhere blocks can't be reserved,
// and a write into a hole on a full disk would end in a signal.
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
	// File systems without mappings return ENODEV or EINVAL. ENOMEM means that
	// the address space is too small, in a 32-bit process or with ulimit -v.
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

// WriteAt copies p into the mapping. A write then costs no system call. A fault of
// the memory would end the process, so it is turned into a panic of this goroutine
// and recovered. After a fault, the bytes and all later ones are written with calls.
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

// letGo removes the bytes before end, which were written already, from the process's
// memory. They stay in the page cache, and come back if they are touched again.
func (m *mapping) letGo(end int) {
	end &^= mappingWindow - 1
	_ = syscall.Madvise(m.mem[m.behind:end], syscall.MADV_DONTNEED) // the mapping is shared: nothing is lost
	m.behind = end
}

// fault finds out why a copy of p to off met the fault r. If r is another panic, it goes on.
//
// The cause may be a bad block, a full disk under a hole or under a block that
// the file system copies on write, or a file that somebody has cut. As faults
// they all look the same. So fault writes the same bytes with a call. If the
// call fails, its error is the cause. If it succeeds, the bytes are written.
func (m *mapping) fault(r any, p []byte, off int64) (int, error) {
	at, ok := r.(interface{ Addr() uintptr })
	if !ok {
		panic(r)
	}
	m.byCall = true
	// If the file was cut, a call would make it longer and hide the cut.
	if size, err := m.f.Size(); err != nil || size < int64(len(m.mem)) {
		m.err = m.f.pathError("write to mapping", fmt.Errorf("fault at address %#x, in a file of %d bytes: %w", at.Addr(), size, syscall.EIO))
		return 0, m.err
	}
	return m.writeByCall(p, off)
}

// writeByCall writes p with a call, not through the mapping. Its first error is final.
func (m *mapping) writeByCall(p []byte, off int64) (n int, err error) {
	n, err = m.f.WriteAt(p, off)
	if err != nil {
		m.err = err
	}
	return n, err
}

// Unmap ends the mapping. It may be called after a fault, and after the file was closed.
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
