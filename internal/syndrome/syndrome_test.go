package syndrome

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
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

// Find returns every error of a bit or a byte at its place, and no other.
func TestFind_OneByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, n := range []int{0, 1, 2, 3, 4, 5, 8, 100, 300} {
		good := coded(rng, n)
		for pos := range good {
			for mask := 1; mask < 256; mask++ {
				bad := slices.Clone(good)
				bad[pos] ^= byte(mask)
				found := Find(n, syndromeOf(bad), math.MaxUint32)
				if len(found) != 1 || found[0].N != 1 || found[0].Flips[0] != (Flip{pos, byte(mask)}) {
					t.Fatalf("%d bytes, byte %d xor %#x: found %+v", n, pos, mask, found)
				}
			}
		}
	}
}

// The same in the largest message for which Find is used.
func TestFind_OneBitOfMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	const n = 32 << 10
	b := coded(rng, n)
	for range 50 {
		f := Flip{rng.IntN(len(b)), 1 << rng.IntN(8)}
		b[f.Pos] ^= f.Mask
		found := Find(n, syndromeOf(b), Bits(n))
		if len(found) != 1 || found[0].Flips[0] != f || found[0].Class != Bits(n) {
			t.Errorf("%+v: found %+v", f, found)
		}
		b[f.Pos] ^= f.Mask
	}
}

func TestFind_TwoBitsAndTwoBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	for _, n := range []int{0, 1, 10, 60} {
		good := coded(rng, n)
		for range 500 {
			a, b := rng.IntN(8*len(good)), rng.IntN(8*len(good))
			want := Error{Flips: [2]Flip{{min(a, b) / 8, 1 << (min(a, b) % 8)}, {max(a, b) / 8, 1 << (max(a, b) % 8)}}, N: 2}
			if pos := rng.IntN(len(good) - 1); rng.IntN(2) == 0 {
				want.Flips = [2]Flip{{pos, byte(1 + rng.IntN(255))}, {pos + 1, byte(1 + rng.IntN(255))}}
			}
			if want.Flips[0].Pos == want.Flips[1].Pos {
				continue // one byte
			}
			bad := slices.Clone(good)
			for _, f := range want.Flips {
				bad[f.Pos] ^= f.Mask
			}
			found := Find(n, syndromeOf(bad), 1<<23)
			if !slices.ContainsFunc(found, func(e Error) bool { return e.Flips == want.Flips }) &&
				!slices.ContainsFunc(found, func(e Error) bool { return e.Class < 65535*uint64(n+4) }) {
				t.Fatalf("%d bytes, %+v: found %+v", n, want.Flips, found)
			}
			for _, e := range found {
				again := slices.Clone(bad)
				for _, f := range e.Flips[:e.N] {
					again[f.Pos] ^= f.Mask
				}
				if syndromeOf(again) != 0 {
					t.Fatalf("%d bytes, %+v: %+v does not explain it", n, want.Flips, e)
				}
			}
		}
	}
}

// A random syndrome is taken for a small error as often as Class says.
func TestFind_Chance(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 0))
	const n, tries = 60, 1000
	twoBits := Bits(n) * Bits(n) / 2
	limits := []uint64{Bits(n), twoBits, 65535 * (n + 4)}
	hits := make([]int, len(limits))
	for range tries {
		s := rng.Uint32() | 1
		for i, most := range limits {
			found := Find(n, s, most)
			for _, e := range found {
				if e.Class > most {
					t.Fatalf("most %d: found %+v", most, e)
				}
			}
			hits[i] += min(len(found), 1)
		}
	}
	// 512, 131,072 and 4.2 million of 2^32.
	if hits[0] > 1 || hits[1] > 3 || hits[2] > 8 {
		t.Errorf("of %d random syndromes %v pass for %v errors", tries, hits, limits)
	}
}

// Find skips kinds with more errors than it may look for.
func TestFind_Bounded(t *testing.T) {
	if found := Find(1000, 12345, 10); found != nil {
		t.Errorf("found %+v with no kind allowed", found)
	}
	if n := testing.AllocsPerRun(10, func() { Find(32<<10, 0xdeadbeef, 1<<22) }); n > 4 {
		t.Errorf("%v allocations for a long message", n)
	}
}

func TestBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	rest := coded(rng, 1000)
	for range 20 {
		a, b := rng.Uint32(), rng.Uint32()
		d := crc32.Update(a, table, rest) ^ crc32.Update(b, table, rest)
		if got := Back(d, len(rest)); got != a^b {
			t.Errorf("Back = %#x, want %#x", got, a^b)
		}
	}
}
