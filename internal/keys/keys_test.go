package keys

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomKey makes short keys of few letters, so that many begin alike.
func randomKey(r *rand.Rand) []byte {
	key := bytes.Repeat([]byte{'a'}, []int{0, 3, 7, 8, 9, 16}[r.IntN(6)])
	for range r.IntN(4) {
		key = append(key, "\x00a\xff"[r.IntN(3)])
	}
	return key
}

type bounds [][2][]byte

func (b bounds) Bounds(i int) (smallest, largest []byte) { return b[i][0], b[i][1] }

// TestRanges compares with a walk over the whole bounds, and FindMany with Find.
func TestRanges(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		var all [][]byte
		for range 1 + r.IntN(40) {
			all = append(all, randomKey(r))
		}
		slices.SortFunc(all, bytes.Compare)
		all = slices.CompactFunc(all, bytes.Equal)
		var b bounds
		for len(all) > 0 { // a range of one key or of two
			last := min(r.IntN(2), len(all)-1)
			b = append(b, [2][]byte{all[0], all[last]})
			all = all[last+1:]
		}
		ranges := NewRanges(len(b), b[0][0], b[len(b)-1][1])
		for i := range b {
			ranges.Set(i, b[i][0], b[i][1])
		}
		var many [][]byte
		for range 200 {
			key := randomKey(r)
			many = append(many, key)
			want := slices.IndexFunc(b, func(x [2][]byte) bool { return bytes.Compare(x[0], key) <= 0 && bytes.Compare(key, x[1]) <= 0 })
			if got := ranges.Find(key, b); got != want {
				t.Fatalf("seed %d: Find(%q) = %d, want %d, of %s", seed, key, got, want, fmt.Sprintf("%q", b))
			}
			from, before := 0, 0
			for _, x := range b {
				if bytes.Compare(x[1], key) < 0 {
					from++
				}
				if bytes.Compare(x[0], key) < 0 {
					before++
				}
			}
			if f, n := ranges.From(key, b), ranges.Before(key, b); f != from || n != before {
				t.Fatalf("seed %d: From(%q) = %d, Before = %d, want %d and %d, of %s", seed, key, f, n, from, before, fmt.Sprintf("%q", b))
			}
		}
		checkFindMany(t, &ranges, b, many)
	}
}

// checkFindMany asks for some of the keys at once.
func checkFindMany(t *testing.T, ranges *Ranges, b bounds, keys [][]byte) {
	t.Helper()
	var some []uint8
	for i := range keys {
		if i%3 > 0 {
			some = append(some, uint8(i))
		}
	}
	var heads Heads
	ranges.HeadsOf(keys, some, &heads)
	found := make([]int32, len(some))
	ranges.FindMany(keys, some, &heads, b, found)
	for j, i := range some {
		if want := ranges.Find(keys[i], b); int(found[j]) != want {
			t.Fatalf("FindMany(%q) = %d, want %d, of %q", keys[i], found[j], want, b)
		}
	}
}
