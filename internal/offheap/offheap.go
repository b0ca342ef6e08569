// Package offheap gives memory that the garbage collector does not count: the
// arenas of memtables, the buffers of the block cache, the filters and indexes of
// tables, and the hashes from which filters are made. They are large and have no
// pointers. On the Go heap they would let it grow to twice their size before a
// collection (GOGC).
//
// Who takes memory gives it back by Free, once nobody can read it any more, or
// leaves that to FreeAfter. What is lost without either stays taken until the
// process ends.
//
// Alloc is make, and Free leaves the rest to the collector, on systems other than
// unix and in builds with the race detector. The detector sees the Go heap only;
// there Free also overwrites the memory, so that it reports a read which does not
// happen before.
package offheap

import "sync/atomic"

var inUse atomic.Int64

// InUse returns the bytes that are taken now, in the whole process.
func InUse() int64 { return inUse.Load() }

// Alloc returns n zeroed bytes, n > 0. It is meant for large pieces: each is
// rounded up to whole pages and costs a system call.
func Alloc(n int) []byte {
	b := alloc(n)
	inUse.Add(int64(len(b)))
	return b
}

// Free gives b back, which must be what Alloc returned, whole. Any later access
// to it is a fault that ends the process.
func Free(b []byte) {
	inUse.Add(-int64(len(b)))
	free(b)
}

// Discard gives the memory of b back, but keeps its addresses where the platform
// can: then it returns b, zeroed, which may be read at any time, and written to
// after Retake. On Linux it always does; where the program has locked its memory
// and the kernel is older than 5.18, the memory stays taken until Free.
// Where it returns nil it has done what Free does.
func Discard(b []byte) []byte {
	inUse.Add(-int64(len(b)))
	return discard(b)
}

// Retake counts b, which Discard returned, as taken again.
func Retake(b []byte) { inUse.Add(int64(len(b))) }

// FreeDiscarded is Free for what Discard returned.
func FreeDiscarded(b []byte) { free(b) }
