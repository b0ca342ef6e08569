package bloom

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// A filter prints as one line: its type, its number of keys, its size in bits, and
// the share of absent keys that are expected to pass. The methods have value
// receivers, so that a filter inside of a struct prints in the same way. Only
// AtomicBlocked's method reads the bits.

// printedZero follows the type in the line of a zero filter.
const printedZero = "the zero value, which says maybe to every key"

// printed returns the line of a filter. kind is the type of the filter and a colon.
func printed(kind string, keys uint64, bytes int, rate float64) string {
	return fmt.Sprintf("%s %d keys in %d bits, %.3g %% of absent keys pass", kind, keys, 8*uint64(bytes), 100*rate)
}

// String describes the filter in one line, with the rate that is expected after Count keys.
func (f Filter) String() string {
	if f.m == 0 {
		return "bloom.Filter: " + printedZero
	}
	return printed("bloom.Filter:", f.count, f.SizeBytes(), SizeFPR(f.m, f.k, f.count))
}

// String describes the filter in one line. The rate is the one that is expected of all
// layers with the keys that they have.
func (s Scalable) String() string {
	if len(s.layers) == 0 {
		return "bloom.Scalable: " + printedZero
	}
	denied := 1.0
	for i := range s.layers {
		l := &s.layers[i]
		denied *= 1 - SizeFPR(l.m, l.k, l.count)
	}
	info := s.Info()
	return printed("bloom.Scalable:", info.Items, info.SizeBytes, 1-denied)
}

// String describes the filter in one line.
func (f Counting) String() string {
	if len(f.lines) == 0 {
		return "bloom.Counting: " + printedZero
	}
	return printed("bloom.Counting:", f.count, f.SizeBytes(), f.FPR())
}

// String describes the filter in one line.
func (f Cuckoo) String() string {
	if f.buckets == 0 {
		return "bloom.Cuckoo: " + printedZero
	}
	return printed("bloom.Cuckoo:", f.count, f.SizeBytes(), f.FPR())
}

// String describes the filter in one line.
func (f Blocked) String() string {
	if f.first.lines == 0 {
		return "bloom.Blocked: " + printedZero
	}
	return printed("bloom.Blocked:", f.Keys(), f.SizeBytes(), f.PredictedFPR())
}

// String describes the filter in one line.
func (f Fuse) String() string {
	if f.r == 0 {
		return "bloom.Fuse: " + printedZero
	}
	return printed("bloom.Fuse:", f.Keys(), f.SizeBytes(), f.PredictedFPR())
}

// String describes the filter in one line.
func (s Static) String() string {
	if s.fuse == nil && s.blocked.first.lines == 0 {
		return "bloom.Static: " + printedZero
	}
	return printed("bloom.Static: "+s.Kind().String()+",", s.Keys(), s.SizeBytes(), s.PredictedFPR())
}

// String describes the filter in one line. It counts bits, and estimates the number of
// keys and the rate from them.
func (f AtomicBlocked) String() string {
	if len(f.lines) == 0 {
		return "bloom.AtomicBlocked: " + printedZero
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
	return printed("bloom.AtomicBlocked: about", whole(math.Round(keys)), f.SizeBytes(), rate)
}

// String describes the set in one line.
func (s Bitset) String() string {
	return fmt.Sprintf("bloom.Bitset: %d numbers below %d in %d bits, exactly", s.count, s.Limit(), 8*uint64(s.SizeBytes()))
}

// String describes the filter, and the filter below it, in one line.
func (e Exact) String() string {
	if e.filter == nil {
		return "bloom.Exact: " + printedZero
	}
	return fmt.Sprintf("bloom.Exact: %d absent keys known beside a %s", e.Len(), nameOf(e.filter))
}

// String describes the filter below in one line.
func (o Of[T]) String() string {
	if o.asker == nil {
		return "bloom.Of: " + printedZero
	}
	return "bloom.Of: values in a " + nameOf(o.asker)
}

// nameOf returns what a filter prints as, or its type if it has no method String.
func nameOf(f Asker) string {
	if s, ok := f.(fmt.Stringer); ok {
		return s.String()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", f), "*")
}

// String returns the function's name, and the seed if the seed is not a secret.
func (h Hasher) String() string {
	if h.id != HashXXH3 {
		return h.ID().String()
	}
	return fmt.Sprintf("%v:%016x", h.ID(), h.seed)
}
