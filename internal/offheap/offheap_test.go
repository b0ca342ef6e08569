package offheap

import (
	"runtime"
	"testing"
)

// TestAlloc_NotOnTheHeap takes memory, writes all of it and gives it back.
func TestAlloc_NotOnTheHeap(t *testing.T) {
	const n = 64 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	taken := InUse()
	b := Alloc(n)
	if len(b) != n || InUse() != taken+n {
		t.Fatalf("%d bytes, %d more in use, want %d", len(b), InUse()-taken, n)
	}
	for i := 0; i < n; i += 4096 {
		if b[i] != 0 {
			t.Fatalf("byte %d is %d", i, b[i])
		}
		b[i] = 1
	}
	runtime.ReadMemStats(&after)
	if mapsMemory() && after.TotalAlloc-before.TotalAlloc > n/2 {
		t.Errorf("%d bytes were allocated on the heap", after.TotalAlloc-before.TotalAlloc)
	}
	Free(b)
	if InUse() != taken {
		t.Errorf("%d bytes more in use than before", InUse()-taken)
	}
}

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

// mapsMemory tells whether Alloc maps memory on this platform.
func mapsMemory() bool {
	switch runtime.GOOS {
	case "darwin", "dragonfly", "freebsd", "linux", "netbsd", "openbsd":
		return true
	}
	return false
}
