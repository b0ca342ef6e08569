package metamorphic

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shaledb/shale/internal/fuzzing"
	"github.com/shaledb/shale/test/harness"
)

// A byteSource gives each byte of an input as a random number. Behind its end it goes on with numbers
// that are the same for all inputs: math/rand asks again after some of them, so they must differ.
type byteSource struct {
	left []byte
	rand.PCG
}

func (s *byteSource) Uint64() uint64 {
	if len(s.left) == 0 {
		return s.PCG.Uint64()
	}
	b := s.left[0]
	s.left = s.left[1:]
	return uint64(b) * 0x0101010101010101 // in all places, wherever the choice looks
}

// mostSteps is how many steps an input has at most. Some write dozens of keys.
const mostSteps = 200

// livesLimit is four times what was seen.
var livesLimit = fuzzing.Limit{Bytes: 512 << 20}

// FuzzOpsVsMap reads the input as steps of a life, crashes and reopening among them, and compares
// each answer with the model's. The options come from the input too.
func FuzzOpsVsMap(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 20, 100, 400, 1000} {
		for range 3 {
			seed := make([]byte, size)
			for i := range seed {
				seed[i] = byte(r.Uint32())
			}
			f.Add(seed)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		livesLimit.Once(t, 0, "the life of a store", func() {
			bytes := &byteSource{left: data}
			source := harness.NewSource(harness.ShortKeys)
			source.Rand, source.Timed = rand.New(bytes), true
			operations := slices.Concat(harness.Operations, harness.LifeOperations)
			seed := source.Uint64()
			var p harness.Program
			for len(bytes.left) > 0 && len(p.Steps) < mostSteps {
				p.Steps = append(p.Steps, source.Draw(operations))
			}
			if err := harness.RunLife(harness.NewLife(seed), p.All()); err != nil {
				t.Fatal(err)
			}
		})
	})
}
