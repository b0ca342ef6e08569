package offheap

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// FreeAfter frees b when the garbage collector finds that owner can't be reached any more.
// It is meant for memory that is read without a lock and without a count of readers. b
// must be reachable only through owner. A reader of b calls runtime.KeepAlive(owner) at
// the end, because the collector does not know that b belongs to owner.
func FreeAfter[T any](owner *T, b []byte) { Unreachable(unsafe.Pointer(owner), func() { Free(b) }) }

// Unreachable calls do when the garbage collector finds that owner can't be reached any more.
// It is runtime.AddCleanup, of which each type of owner would bring another 2 KB of code into
// programs. owner is on the Go heap, and must not be reachable through do.
func Unreachable(owner unsafe.Pointer, do func()) {
	runtime.AddCleanup((*byte)(owner), func(do func()) { do() }, do)
}

// abandoned is the number of bytes given to Abandon since it last started a collection.
var (
	abandoned  atomic.Int64
	collecting atomic.Bool // a collection that Abandon has started is running
)

// collectAfter is how many bytes are abandoned before Abandon starts a collection.
// With a large heap a collection takes longer, and the limit is an eighth of the heap.
const collectAfter = 16 << 20

// Abandon says that an owner of n bytes, which was given to FreeAfter, is not referenced
// any more. The collector does not count these bytes and might not run for minutes. So
// when many bytes have been abandoned, Abandon starts a collection in the background.
func Abandon(n int) {
	if !maps || abandoned.Add(int64(n)) < collectAfter || !worthCollecting() || !collecting.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer collecting.Store(false)
		for worthCollecting() { // again, if as many bytes were abandoned meanwhile
			abandoned.Store(0)
			runtime.GC()
		}
	}()
}

// worthCollecting reports whether enough bytes are abandoned for a collection.
func worthCollecting() bool {
	n := abandoned.Load()
	if n < collectAfter {
		return false
	}
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap) // stops the world for some microseconds, each 16 MiB
	return uint64(n) >= heap.HeapAlloc/8
}
