package hashes

import (
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

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
