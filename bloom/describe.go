package bloom

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/shaledb/shale/bloom/internal/form"
)

// A filter prints as a small table: its keys, its bits, how many of these are set, and the
// share of absent keys that are expected to pass. The methods have value receivers, so that a
// filter inside of a struct prints in the same way. They count bits, which takes 0.1 ms for a
// megabyte.

// String returns the filter's statistics in lines:
//
//	bloom.Filter:
//	  keys                   1000
//	  keys planned           1000
//	  bits                   9600
//	  probes                    7
//	  bits set               4937
//	  fill ratio           51.4 %
//	  false maybes        0.997 %
//	  rate planned            1 %
//
// The share of false maybes is the one that is expected after Count keys. The planned figures are
// the [FilterOptions]. A filter that was read does not have them, as its serialized form does not.
// It counts bits: see FillRatio.
func (f Filter) String() string {
	if f.bits.M == 0 {
		return "bloom.Filter: " + form.Zero
	}
	return form.Statistics{
		Keys: form.Number(f.bits.Count), Planned: f.plannedKeys, Bits: f.bits.M, Probes: f.bits.K, Set: f.bits.Ones(),
		Rate: SizeFPR(f.bits.M, f.bits.K, f.bits.Count), Wanted: f.plannedFPR,
	}.Table("bloom.Filter")
}

// String returns the filter's statistics in lines: see [Filter.String]. It counts bits.
func (f Blocked) String() string {
	if f.units.First.Lines == 0 {
		return "bloom.Blocked: " + form.Zero
	}
	return f.statistics().Table("bloom.Blocked")
}

func (f *Blocked) statistics() form.Statistics {
	ones := uint64(0)
	for _, lines := range [][]byte{f.units.First.Bytes, f.units.Second.Bytes} {
		for ; len(lines) >= 8; lines = lines[8:] {
			ones += uint64(bits.OnesCount64(binary.LittleEndian.Uint64(lines)))
		}
	}
	return form.Statistics{
		Keys: form.Number(f.Count()), Bits: (f.units.First.Lines + f.units.Second.Lines) * lineBits, Set: ones, Rate: f.FPR(),
	}
}

// String returns the filter's statistics in lines: see [Filter.String]. All bits are of
// fingerprints, so there is no fill ratio.
func (f Fuse) String() string {
	if f.r == 0 {
		return "bloom.Fuse: " + form.Zero
	}
	return f.statistics().Table("bloom.Fuse")
}

func (f *Fuse) statistics() form.Statistics {
	return form.Statistics{Keys: form.Number(f.Count()), Bits: 8 * uint64(len(f.bytes)), Solid: true, Rate: f.FPR()}
}

// String returns the filter's kind and its statistics in lines: see [Blocked.String] and
// [Fuse.String].
func (s Static) String() string {
	switch {
	case s.fuse != nil:
		return s.fuse.statistics().Table("bloom.Static: fuse")
	case s.blocked.units.First.Lines > 0:
		return s.blocked.statistics().Table("bloom.Static: blocked")
	}
	return "bloom.Static: " + form.Zero
}

// String returns the filter's statistics in lines: see [Filter.String]. It counts bits, and
// estimates the number of keys from them.
func (f AtomicBlocked) String() string {
	if len(f.lines) == 0 {
		return "bloom.AtomicBlocked: " + form.Zero
	}
	ones := uint64(0)
	for i := range f.lines {
		for j := range f.lines[i] {
			ones += uint64(bits.OnesCount64(f.lines[i][j].Load()))
		}
	}
	return form.Statistics{
		Keys: fmt.Sprintf("about %.0f", f.EstimatedCount()), Bits: 8 * uint64(f.SizeBytes()), Set: ones, Rate: f.FPR(),
	}.Table("bloom.AtomicBlocked")
}

// FPR returns the share of absent keys that pass with the bits that are set at the moment. It
// counts bits.
func (f *AtomicBlocked) FPR() (rate float64) {
	if len(f.lines) == 0 {
		return 1
	}
	for i := range f.lines {
		squares := 0.0 // sum of the squared shares of a word's bits: a key sets two bits a word
		for j := range f.lines[i] {
			n := float64(bits.OnesCount64(f.lines[i][j].Load()))
			squares += n * n / (64 * 64)
		}
		rate += math.Pow(squares/float64(len(f.lines[i])), 3) / float64(len(f.lines))
	}
	return min(rate, 1)
}

// String returns the function's name, and the seed if the seed is not a secret.
func (h Hasher) String() string {
	if h.id != HashXXH3 {
		return h.ID().String()
	}
	return fmt.Sprintf("%v:%016x", h.ID(), h.seed)
}
