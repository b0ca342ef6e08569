package bitarray

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func randomHashes(r *rand.Rand, keys int) []uint64 {
	hashes := make([]uint64, 2*keys)
	for i := range hashes {
		hashes[i] = r.Uint64()
	}
	return hashes
}

// Many questions have the answers of single ones, and many additions set the bits of single ones.
func TestMany(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	maybe, all := 0, 0
	for _, k := range []int{1, 2, 3, 4, 7, 14, 64} {
		for count := range 200 {
			one, many := Make(1000+uint64(200*k), k), Make(1000+uint64(200*k), k)
			hashes := randomHashes(r, count)
			for i := range count {
				one.Add(hashes[2*i], hashes[2*i+1])
			}
			many.AddMany(hashes)
			if one.Count != many.Count || !slices.Equal(one.Words, many.Words) {
				t.Fatalf("%d probes, %d keys: the bits differ", k, count)
			}
			asked := append(hashes, randomHashes(r, count+1)...)
			r.Shuffle(len(asked)/2, func(i, j int) {
				asked[2*i], asked[2*j] = asked[2*j], asked[2*i]
				asked[2*i+1], asked[2*j+1] = asked[2*j+1], asked[2*i+1]
			})
			out := make([]bool, len(asked)/2)
			many.HasMany(asked, out)
			for i := range out {
				if want := one.Has(asked[2*i], asked[2*i+1]); out[i] != want {
					t.Fatalf("%d probes, %d keys: question %d: %v, want %v", k, count, i, out[i], want)
				}
				if all++; out[i] {
					maybe++
				}
			}
		}
	}
	if maybe < all/3 || maybe > all*9/10 {
		t.Errorf("%d of %d answers are maybe: the test asks little", maybe, all)
	}
}

// A last word without a second is no key.
func TestAddMany_OddWord(t *testing.T) {
	a := Make(1000, 7)
	if a.AddMany([]uint64{1}); a.Count != 0 || a.Ones() != 0 {
		t.Errorf("one word made %d keys and %d bits", a.Count, a.Ones())
	}
}
