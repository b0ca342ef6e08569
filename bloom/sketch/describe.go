package sketch

import (
	"fmt"
	"math"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// String returns the filter's statistics in lines: see String of bloom.Filter. The share of
// false maybes is the one that is expected of all layers with the keys that they have.
func (s Scalable) String() string {
	if len(s.layers) == 0 {
		return "sketch.Scalable: " + form.Zero
	}
	denied, ones := 1.0, uint64(0)
	for i := range s.layers {
		l := &s.layers[i]
		denied *= 1 - bloom.SizeFPR(l.M, l.K, l.Count)
		ones += l.Ones()
	}
	info := s.Info()
	return form.Statistics{
		Keys: form.Number(info.Items), Bits: 8 * uint64(info.SizeBytes), Set: ones, Rate: 1 - denied,
	}.Table("sketch.Scalable")
}

// String returns the filter's statistics in lines: see String of bloom.Filter. In place of
// bits it counts the counters that are not 0.
func (f Counting) String() string {
	if len(f.lines) == 0 {
		return "sketch.Counting: " + form.Zero
	}
	return form.Statistics{
		Keys: form.Number(f.count), Bits: 8 * uint64(f.SizeBytes()), Name: "counters set", Of: f.Cap(),
		Set: uint64(math.Round(f.FillRatio() * float64(f.Cap()))), Rate: f.FPR(),
	}.Table("sketch.Counting")
}

// String returns the filter's statistics in lines: see String of bloom.Filter. In place of
// bits it counts the places that are taken.
func (f Cuckoo) String() string {
	if f.buckets == 0 {
		return "sketch.Cuckoo: " + form.Zero
	}
	return form.Statistics{
		Keys: form.Number(f.count), Bits: f.Cap() * f.lanes.width, Name: "places taken", Of: f.Cap(), Set: f.count - uint64(f.waiting), Rate: f.FPR(),
	}.Table("sketch.Cuckoo")
}

// String returns the set's statistics in lines: see String of bloom.Filter. There are no false
// maybes.
func (s Bitset) String() string {
	return form.Statistics{Keys: form.Number(s.count), Bits: 64 * uint64(len(s.words)), Set: s.count}.Table("sketch.Bitset")
}

// String describes the filter, and the filter below it, in one line.
func (e Exact) String() string {
	if e.filter == nil {
		return "sketch.Exact: " + form.Zero
	}
	return fmt.Sprintf("sketch.Exact: %d absent keys known beside a %s", e.Len(), form.NameOf(e.filter))
}
