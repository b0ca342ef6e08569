package bloom

import (
	"math/rand/v2"
	"testing"
)

func TestBlocked_NeverDenies(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 1500 {
		for _, b := range []float64{4, 10, 14, 20, 26} {
			hs := make([]uint64, n)
			for i := range hs {
				hs[i] = r.Uint64()
			}
			fb := AppendBlocked(nil, hs, b)
			f, err := OpenBlocked(fb)
			if err != nil {
				t.Fatal(n, b, err)
			}
			g := f.FirstUnit()
			for _, h := range hs {
				if !f.MayContain(h) || !g.MayContain(h) {
					t.Fatal(n, b)
				}
			}
		}
	}
}
func TestX(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, b := range []float64{5, 8, 10, 12, 14, 16, 20} {
		n := 200000
		hs := make([]uint64, n)
		for i := range hs {
			hs[i] = r.Uint64()
		}
		f, _ := OpenBlocked(AppendBlocked(nil, hs, b))
		fp := 0
		N := 5000000
		for range N {
			if f.MayContain(r.Uint64()) {
				fp++
			}
		}
		t.Log(b, f.Units(), f.BitsPerKey(), float64(fp)/float64(N)*100, f.PredictedFPR()*100, PredictFPR(b)*100, BitsForFPR(PredictFPR(b)))
	}
}
