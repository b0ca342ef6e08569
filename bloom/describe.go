package bloom

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// String describes the filter in one line, with the rate that is expected after Count keys.
func (f Filter) String() string {
	if f.bits.M == 0 {
		return "bloom.Filter: " + form.Zero
	}
	return form.Printed("bloom.Filter:", f.bits.Count, f.SizeBytes(), SizeFPR(f.bits.M, f.bits.K, f.bits.Count))
}

// String describes the filter in one line.
func (f Blocked) String() string {
	if f.units.First.Lines == 0 {
		return "bloom.Blocked: " + form.Zero
	}
	return form.Printed("bloom.Blocked:", f.Count(), f.SizeBytes(), f.FPR())
}

// String describes the filter in one line.
func (f Fuse) String() string {
	if f.r == 0 {
		return "bloom.Fuse: " + form.Zero
	}
	return form.Printed("bloom.Fuse:", f.Count(), f.SizeBytes(), f.FPR())
}

// String describes the filter in one line.
func (s Static) String() string {
	if s.fuse == nil && s.blocked.units.First.Lines == 0 {
		return "bloom.Static: " + form.Zero
	}
	return form.Printed("bloom.Static: "+s.Kind().String()+",", s.Count(), s.SizeBytes(), s.FPR())
}

// String describes the filter in one line. It counts bits, and estimates the number of
// keys and the rate from them.
func (f AtomicBlocked) String() string {
	if len(f.lines) == 0 {
		return "bloom.AtomicBlocked: " + form.Zero
	}
	ones, rate := uint64(0), 0.0
	for i := range f.lines {
		squares := 0.0 // sum of the squared shares of a word's bits: a key sets two bits a word
		for j := range f.lines[i] {
			n := bits.OnesCount64(f.lines[i][j].Load())
			ones += uint64(n)
			squares += float64(n*n) / (64 * 64)
		}
		rate += math.Pow(squares/float64(len(f.lines[i])), 3) / float64(len(f.lines))
	}
	keys := SizeCount(8*uint64(f.SizeBytes()), 6, ones)
	return form.Printed("bloom.AtomicBlocked: about", form.Whole(math.Round(keys)), f.SizeBytes(), rate)
}

// String returns the function's name, and the seed if the seed is not a secret.
func (h Hasher) String() string {
	if h.id != HashXXH3 {
		return h.ID().String()
	}
	return fmt.Sprintf("%v:%016x", h.ID(), h.seed)
}
