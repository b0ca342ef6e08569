package hashes

import (
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

// plainPositions are the positions as a program computes them that has only the standard
// library.
func plainPositions(t *testing.T, key []byte, m uint64, k int) (all []uint64) {
	one, a := fnv.New64(), fnv.New64a()
	_, err1 := one.Write(key)
	_, err2 := a.Write(key)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for i := range uint64(k) {
		all = append(all, (one.Sum64()+i*a.Sum64())%m)
	}
	return all
}

func TestDoubleFNV_AsTheStandardLibrary(t *testing.T) {
	asked := 0
	for n := range 200 {
		key := make([]byte, n)
		for i := range key {
			key[i] = byte(n*31 + i*17)
		}
		for _, m := range []uint64{1, 8, 64, 9584, 1 << 20, 1<<40 - 87, math.MaxUint64} {
			for _, k := range []int{0, 1, 7, 30} {
				h1, h2 := DoubleFNV(key)
				asked += k
				if got, want := slices.Collect(Positions(h1, h2, m, k)), plainPositions(t, key, m, k); !slices.Equal(got, want) {
					t.Errorf("%d positions among %d bits of %d bytes are %d, want %d", k, m, n, got, want)
				}
			}
		}
	}
	t.Logf("%d positions", asked)
}

// The positions of keys in bit arrays that are stored somewhere never change.
func TestDoubleFNV_Locked(t *testing.T) {
	h1, h2 := DoubleFNV([]byte("testing"))
	if h1 != 0xffd1afe03e3d3dff || h2 != 0xc2fe2fb77ae839bb {
		t.Errorf("DoubleFNV = %#x, %#x", h1, h2)
	}
	if got := slices.Collect(Positions(h1, h2, 9584, 6)); !slices.Equal(got, []uint64{7855, 3290, 8309, 3744, 8763, 1254}) {
		t.Errorf("positions are %d", got)
	}
}

func TestPositions_Ends(t *testing.T) {
	if got := slices.Collect(Positions(1, 2, 0, 3)); got != nil {
		t.Errorf("positions among no bits: %d", got)
	}
	yielded := 0
	for range Positions(1, 2, 100, 10) {
		if yielded++; yielded == 3 {
			break
		}
	}
	if yielded != 3 {
		t.Errorf("%d positions before the end of the loop", yielded)
	}
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	key := []byte("some key")
	if n := testing.AllocsPerRun(100, func() {
		h1, h2 := DoubleFNV(key)
		for x := range Positions(h1, h2, 1000, 7) {
			sink += x
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
