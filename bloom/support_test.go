package bloom

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/testenv"
)

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

// reseal returns a copy of a filter whose checksum fits again, after a test
// has changed something else in it.
func reseal(filter []byte) []byte {
	b := append([]byte(nil), filter...)
	if len(b) >= trailerLen {
		binary.LittleEndian.PutUint32(b[len(b)-4:], checksum(b))
	}
	return b
}

// short reports whether tests that count should count less.
func short() bool { return testing.Short() || testenv.Race }
