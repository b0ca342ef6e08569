package offheap

import (
	"runtime"
	"sync/atomic"
)

// FreeAfter gives b back once the collector finds that owner can't be reached any
// more: for what is read without a lock or a count of its readers. Nothing but
// owner may lead to b, and who reads b ends with runtime.KeepAlive(owner): b
// itself means nothing to the collector.
func FreeAfter[T any](owner *T, b []byte) { runtime.AddCleanup(owner, Free, b) }

// abandoned are the bytes of Abandon since the last collection that it asked for.
var (
	abandoned  atomic.Int64
	collecting atomic.Bool
)

// collectAfter is how much is abandoned before a collection is worth it, with a
// small heap. With a large one, which takes longer, it is an eighth of that.
const collectAfter = 16 << 20

// Abandon tells that an owner which FreeAfter knows, of n bytes, has been let go.
// The collector does not see those bytes, and might take minutes to come by
// itself; so when many have gathered, Abandon starts it, in the background.
func Abandon(n int) {
	if !maps || abandoned.Add(int64(n)) < collectAfter || !worthCollecting() || !collecting.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer collecting.Store(false)
		for worthCollecting() { // again, if as much has come meanwhile
			abandoned.Store(0)
			runtime.GC()
		}
	}()
}

func worthCollecting() bool {
	n := abandoned.Load()
	if n < collectAfter {
		return false
	}
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap) // stops the world for some microseconds, each 16 MiB
	return uint64(n) >= heap.HeapAlloc/8
}
