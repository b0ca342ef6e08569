//go:build !race

package offheap

import (
	"syscall"
	"testing"
	"unsafe"
)

// TestDiscard_Locked discards memory that is locked. It keeps its addresses and is zeroed.
func TestDiscard_Locked(t *testing.T) {
	b := Alloc(1 << 20)
	if err := syscall.Mlock(b); err != nil {
		Free(b)
		t.Skipf("mlock: %v", err)
	}
	for i := range b {
		b[i] = 1
	}
	d := Discard(b)
	if len(d) != len(b) || unsafe.SliceData(d) != unsafe.SliceData(b) {
		t.Fatalf("%d bytes, not at the same addresses", len(d))
	}
	for i := range d {
		if d[i] != 0 {
			t.Fatalf("byte %d is %d", i, d[i])
		}
	}
	Retake(d)
	d[7] = 1
	Free(d)
}
