package syndrome

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// coded returns n random bytes with their checksum.
func coded(rng *rand.Rand, n int) []byte {
	b := make([]byte, n, n+4)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, table))
}

func syndromeOf(b []byte) uint32 {
	n := len(b) - 4
	return binary.LittleEndian.Uint32(b[n:]) ^ crc32.Checksum(b[:n], table)
}

// TestOneBit flips each bit of messages up to the largest for which OneBit is used. It finds
// the bit, and none where two are wrong.
func TestOneBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 100, 300, 32 << 10} {
		b := coded(rng, n)
		for i := 0; i < 8*len(b); i += 1 + n/300*997 {
			at, bit := i/8, byte(1)<<(i%8)
			b[at] ^= bit
			if pos, mask, ok := OneBit(n, syndromeOf(b)); !ok || pos != at || mask != bit {
				t.Fatalf("%d bytes, byte %d xor %#x: found %d, %#x, %v", n, at, bit, pos, mask, ok)
			}
			other := rng.IntN(8 * len(b))
			b[other/8] ^= 1 << (other % 8)
			if pos, mask, ok := OneBit(n, syndromeOf(b)); other != i && ok {
				t.Fatalf("%d bytes, bits %d and %d: found %d, %#x", n, i, other, pos, mask)
			}
			b[other/8] ^= 1 << (other % 8)
			b[at] ^= bit
		}
	}
}

func TestMayBeOld(t *testing.T) {
	text := bytes.Repeat([]byte("abcdefg"), 200) // from 500: 12 bytes, 512, 512, 364
	for _, tt := range []struct {
		name     string
		from, to int // zeros
		pos      int
		old      bool
	}{
		{"none", 0, 0, 3, false},
		{"inside a sector", 20, 23, 21, false},
		{"inside a sector, as long as a word", 20, 28, 27, true},
		{"beside them", 20, 28, 28, false},
		{"up to the end of a sector", 10, 12, 10, true},
		{"one at the end of a sector", 523, 524, 523, true},
		{"one at the end", 1399, 1400, 1399, true},
		{"in front of the first word", 0, 2, 1, true},
		{"from the beginning into the first word", 0, 6, 5, false},
		{"at the beginning of a sector", 12, 14, 12, false},
	} {
		b := bytes.Clone(text)
		clear(b[tt.from:tt.to])
		if old := MayBeOld(500, b, tt.pos); old != tt.old {
			t.Errorf("zeros %s: MayBeOld(%d) = %v", tt.name, tt.pos, old)
		}
	}
	// Two bytes in one sector, the others in the next.
	for pos, want := range []bool{true, true, false, false} {
		if old := MayBeOld(510, text[:20], pos); old != want {
			t.Errorf("byte %d of a write that begins at 510: MayBeOld = %v", pos, old)
		}
	}
}
