//go:build linux && !android && (amd64 || arm64 || loong64 || riscv64)

package vfs

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
)

// A mappedReads lets small reads of a file that is open for reading copy from a mapping of it,
// which takes half the time of a system call. It does so only for pages that an earlier read has
// brought into memory. The copy would wait for others too, but the scheduler would not know, and
// would keep a processor for a goroutine that waits.
//
// The system may take such a page away again. So now and then a read is made by a call that does
// not wait. If it fails, all pages are forgotten, and are found again by the calls of later reads. A
// device that answers within the call, such as compressed memory, does not make it fail. Then a copy
// does not wait for the device either, and the pages stay known.
//
// A file is mapped after a number of small reads, so that a file which is opened for a few of
// them costs nothing more.
type mappedReads struct {
	calls  atomic.Int32 // small reads by a call, up to mapAfter
	m      atomic.Pointer[readMapping]
	closed atomic.Bool // by stop, before it looks for m
}

// A readMapping is a mapping of a whole file. The file holds one reference and each copy one; the
// last one to be given back unmaps it.
type readMapping struct {
	mem   []byte
	refs  atomic.Int64
	found []atomic.Uint64 // a bit for each page that was in memory when it was read
}

const (
	maxMappedRead = 64 << 10 // bytes; what is longer takes a call, which tells the scheduler
	mapAfter      = 16       // reads
	checkEvery    = 64       // reads
	maxMappings   = 1 << 14  // of the process; the system allows about 65,000, and the Go heap needs some
)

var (
	pageShift = bits.TrailingZeros(uint(os.Getpagesize()))
	mappings  atomic.Int64 // number of readMappings
)

// read fills p from off and returns true, if all of its pages are known to be in memory.
func (r *mappedReads) read(f *osFile, p []byte, off int64) bool {
	m := r.m.Load()
	if m == nil || !m.holds(off, len(p)) || !m.acquire() {
		return false
	}
	defer m.release()
	if rand.Uint32()%checkEvery == 0 {
		err := f.tryCall(p, off)
		if err != nil {
			m.forget()
		}
		return err == nil
	}
	return m.copyTo(p, off)
}

// holds reports whether the n bytes from off lie within the file, and all their pages were found.
func (m *readMapping) holds(off int64, n int) bool {
	if n == 0 || n > maxMappedRead || off < 0 || off > int64(len(m.mem)-n) {
		return false
	}
	for page := int(off >> pageShift); page <= int((off+int64(n)-1)>>pageShift); page++ {
		if m.found[page/64].Load()&(1<<(page%64)) == 0 {
			return false
		}
	}
	return true
}

// copyTo copies from the mapping. A page that can't be read, or a file that was cut, ends in a
// fault. It becomes a panic, which copyTo recovers; then it returns false, and the read call that
// follows returns the error.
func (m *readMapping) copyTo(p []byte, off int64) (done bool) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			if _, fault := r.(interface{ Addr() uintptr }); !fault {
				panic(r)
			}
			m.forget()
			done = false
		}
	}()
	copy(p, m.mem[off:])
	return true
}

// forget forgets which pages are in memory.
func (m *readMapping) forget() {
	for i := range m.found {
		m.found[i].Store(0)
	}
}

// note notes that a call has read n bytes from off, so that their pages are in memory.
func (r *mappedReads) note(f *osFile, off int64, n int) {
	if n == 0 || n > maxMappedRead {
		return
	}
	m := r.m.Load()
	if m == nil {
		if r.calls.Load() < mapAfter && r.calls.Add(1) == mapAfter {
			r.start(f)
		}
		return
	}
	if off+int64(n) > int64(len(m.mem)) {
		return // the file has grown
	}
	for page := int(off >> pageShift); page <= int((off+int64(n)-1)>>pageShift); page++ {
		if bit := uint64(1) << (page % 64); m.found[page/64].Load()&bit == 0 {
			m.found[page/64].Or(bit)
		}
	}
}

// start maps the file. If that fails, reads go on by calls.
func (r *mappedReads) start(f *osFile) {
	size, err := f.Size()
	if err != nil || size == 0 || size > math.MaxInt32 {
		return
	}
	if mappings.Add(1) > maxMappings {
		mappings.Add(-1)
		return
	}
	m := &readMapping{found: make([]atomic.Uint64, size>>pageShift/64+1)}
	err = f.control("mmap", func(fd uintptr) (err error) {
		m.mem, err = syscall.Mmap(int(fd), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
		return err
	})
	if err != nil {
		mappings.Add(-1)
		return
	}
	_ = syscall.Madvise(m.mem, syscall.MADV_RANDOM) // advice: a fault then loads one page, not many
	m.refs.Store(1)
	r.m.Store(m)
	if r.closed.Load() { // stop may have come before m
		r.stop()
	}
}

// stop unmaps the file, when the copies under way have ended.
func (r *mappedReads) stop() {
	r.closed.Store(true)
	if m := r.m.Swap(nil); m != nil {
		m.release()
	}
}

// acquire takes a reference, if the mapping is not being unmapped.
func (m *readMapping) acquire() bool {
	for {
		n := m.refs.Load()
		if n == 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (m *readMapping) release() {
	if m.refs.Add(-1) == 0 {
		_ = syscall.Munmap(m.mem)
		mappings.Add(-1)
	}
}
