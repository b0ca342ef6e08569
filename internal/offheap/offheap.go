// Package offheap allocates memory that the garbage collector does not count: the arenas
// of memtables, the buffers of the block cache, the filters and indexes of tables, and
// the hashes from which filters are made. These are large and contain no pointers. On the
// Go heap, they would let the heap grow to twice their size before a collection (GOGC).
//
// A caller of Alloc frees the memory with Free when nobody can
// read it any more, or leaves that to FreeAfter. Memory that is
// forgotten without either stays taken until the process ends.
//
// On systems other than unix, and in builds with the race detector, Alloc
// is make, and the collector frees the memory. The race detector knows
// only the Go heap. There Free also overwrites the memory, so that the
// detector reports a read that is not ordered before the call of Free.
package offheap

import "sync/atomic"

var inUse atomic.Int64 // bytes

// InUse returns how many bytes are allocated now in the whole process.
func InUse() int64 { return inUse.Load() }

// Alloc returns n zeroed bytes. It is meant for large pieces,
// because each takes whole pages and a system call. Therefore it is not inlined,
// nor is Free: programs become smaller. Requires: n > 0.
//
//go:noinline
func Alloc(n int) []byte {
	b := alloc(n)
	inUse.Add(int64(len(b)))
	return b
}

// Free frees b, which must be a whole slice that Alloc has returned.
// Any later access to it is a fault that ends the process.
//
//go:noinline
func Free(b []byte) {
	inUse.Add(-int64(len(b)))
	free(b)
}

// Discard gives the memory of b back to the system, but keeps its addresses if the platform
// can do so. In that case it returns b, which is zeroed. b may be read at any time, and
// written to after Retake. Otherwise Discard does what Free does, and returns nil.
//
// On Linux it always keeps the addresses, except in builds with
// the race detector. If the program has locked its memory and the
// kernel is older than 5.18, the memory stays taken until Free.
func Discard(b []byte) []byte {
	inUse.Add(-int64(len(b)))
	return discard(b)
}

// Retake counts b, which Discard has returned, as
// taken again. The caller may then write to it.
func Retake(b []byte) { inUse.Add(int64(len(b))) }

// FreeDiscarded frees memory that Discard has returned.
func FreeDiscarded(b []byte) { free(b) }
