package offheap

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestDiscard gives memory back and takes it again.
func TestDiscard(t *testing.T) {
	taken := InUse()
	b := Alloc(1 << 20)
	b[5] = 1
	b = Discard(b)
	if InUse() != taken {
		t.Errorf("%d bytes more in use than before", InUse()-taken)
	}
	if b == nil {
		return
	}
	if b[5] != 0 {
		t.Error("what was discarded is still there")
	}
	Retake(b)
	if b[5] = 2; InUse() != taken+1<<20 {
		t.Errorf("%d bytes more in use than before", InUse()-taken)
	}
	FreeDiscarded(Discard(b))
}

// An owner leads to memory outside the Go heap.
type owner struct {
	b    []byte
	next *owner
}

// TestFreeAfter abandons owners, and keeps some of them reachable. The
// memory of the others is freed, by a collection that only Abandon asks for.
func TestFreeAfter(t *testing.T) {
	if !maps {
		t.Skip("this platform has no memory beside the heap")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	taken := InUse()
	const n, size = 128, 1 << 20
	var kept *owner
	for i := range n {
		o := &owner{b: Alloc(size)}
		FreeAfter(o, o.b)
		if i%4 == 0 {
			o.next, kept = kept, o
		} else {
			Abandon(size)
		}
	}
	const most = n/4*size + 2*collectAfter // bytes that are abandoned during the last collection may wait
	for deadline := time.Now().Add(30 * time.Second); InUse()-taken > most; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are in use, want %d at most", InUse()-taken, most)
		}
	}
	if left := InUse() - taken; left < n/4*size {
		t.Errorf("%d bytes are in use, those of owners that can be reached are %d", left, n/4*size)
	}
	for o := kept; o != nil; o = o.next {
		o.b[size-1]++ // a fault if it was given back
	}
	kept = nil
	for deadline := time.Now().Add(30 * time.Second); InUse() > taken; time.Sleep(time.Millisecond) {
		runtime.GC()
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are left", InUse()-taken)
		}
	}
}
