package prefetch

import (
	"bytes"
	"testing"
)

// Prefetching reads nothing and faults nowhere, not even past the end.
func TestBytes(t *testing.T) {
	b := bytes.Repeat([]byte("x"), 4096)
	for n := range len(b) + 1 {
		Bytes(b[:n])
		Bytes(b[n:])
	}
	Bytes(nil)
	Line(&b[4095])
	Line(nil)
	if !bytes.Equal(b, bytes.Repeat([]byte("x"), 4096)) {
		t.Error("memory has changed")
	}
	if n := testing.AllocsPerRun(100, func() { Bytes(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
