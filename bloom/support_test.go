package bloom

import "math/rand/v2"

// randomHashes returns n hashes; the same ones for the same seed.
func randomHashes(seed uint64, n int) []uint64 {
	r := rand.New(rand.NewPCG(seed, 0))
	hs := make([]uint64, n)
	for i := range hs {
		hs[i] = r.Uint64()
	}
	return hs
}

// mustOpen opens a filter that has to be good.
func mustOpen(b []byte) *Blocked {
	f, err := OpenBlocked(b)
	if err != nil {
		panic(err)
	}
	return f
}
