package shale

import (
	"math/rand/v2"
	"testing"

	"github.com/shaledb/shale/internal/fuzzing"
)

// A byteChooser takes its choices from bytes, as many for each as it needs.
// Without bytes left it always chooses 0.
type byteChooser struct{ left []byte }

func (c *byteChooser) choose(_ string, n int) int {
	x := 0
	for most := n - 1; most > 0; most >>= 8 {
		x <<= 8
		if len(c.left) > 0 {
			x |= int(c.left[0])
			c.left = c.left[1:]
		}
	}
	return x % n
}

// opsLimit is how many actions an input has at most. Some write dozens of keys.
const opsLimit = 200

// livesLimit is four times what was seen.
var livesLimit = fuzzing.Limit{Bytes: 512 << 20}

// FuzzOpsVsMap reads the input as actions on a store, crashes and reopening
// among them, and compares each answer with the model's. The options come from
// the input too.
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
			bytes := &byteChooser{left: data}
			run := newModelRun(bytes)
			defer run.abandon()
			for step := 0; len(bytes.left) > 0 && step < opsLimit; step++ {
				if err := run.attempt(run.randomStep); err != nil {
					t.Fatalf("step %d of %v: %v", step, run.counts, err)
				}
			}
			if err := run.attempt(run.end); err != nil {
				t.Fatalf("at the end: %v", err)
			}
		})
	})
}
