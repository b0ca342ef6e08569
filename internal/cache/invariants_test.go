//go:build invariants

package cache

import (
	"strings"
	"testing"
)

// A reader that uses a block after Release sees wrong bytes, and a write
// to it is detected when the buffer is used again. The blocks here are
// too large for the pools, so that no other test gets a damaged one.
func TestInvariants_FreeBuffersArePoisoned(t *testing.T) {
	b := New(0).Alloc(1<<maxClassBits + 1)
	p := b.Bytes()
	for i := range p {
		p[i] = 1
	}
	b.Release()
	for i, x := range p {
		if x != poisonByte {
			t.Fatalf("byte %d of a free buffer is %#x, want %#x", i, x, poisonByte)
		}
	}
	checkPoison(p)
	p[77] = 2
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "byte 77 ") {
			t.Errorf("a write to a free buffer gives %q", got)
		}
	}()
	checkPoison(p)
}

// A buffer is filled with the pattern at the last Release, and not when it is evicted.
func TestInvariants_PinnedBuffersAreNot(t *testing.T) {
	c := New(1 << 20)
	k := Key{File: 1, Offset: 2}
	add(c, k, 4096)
	b := c.Get(k)
	c.EvictFile(1)
	checkFor(t, b, k)
	p := b.Bytes()
	b.Release()
	if p[0] != poisonByte {
		t.Errorf("after the last Release, byte 0 is %#x, want %#x", p[0], poisonByte)
	}
}
