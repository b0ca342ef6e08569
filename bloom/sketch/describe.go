package sketch

import (
	"fmt"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/bloom/internal/form"
)

// String describes the filter in one line. The rate is the one that is expected of all
// layers with the keys that they have.
func (s Scalable) String() string {
	if len(s.layers) == 0 {
		return "sketch.Scalable: " + form.Zero
	}
	denied := 1.0
	for i := range s.layers {
		l := &s.layers[i]
		denied *= 1 - bloom.SizeFPR(l.M, l.K, l.Count)
	}
	info := s.Info()
	return form.Printed("sketch.Scalable:", info.Items, info.SizeBytes, 1-denied)
}

// String describes the filter in one line.
func (f Counting) String() string {
	if len(f.lines) == 0 {
		return "sketch.Counting: " + form.Zero
	}
	return form.Printed("sketch.Counting:", f.count, f.SizeBytes(), f.FPR())
}

// String describes the filter in one line.
func (f Cuckoo) String() string {
	if f.buckets == 0 {
		return "sketch.Cuckoo: " + form.Zero
	}
	return form.Printed("sketch.Cuckoo:", f.count, f.SizeBytes(), f.FPR())
}

// String describes the window in one line. The rate is the one that is expected of all
// generations with the keys that they have.
func (w Window) String() string {
	if len(w.layers) == 0 {
		return "sketch.Window: " + form.Zero
	}
	rate := w.passing(func(l *windowLayer, lane int) float64 { return bloom.SizeFill(l.m, l.k, l.counts[lane]) })
	return form.Printed("sketch.Window:", w.Count(), w.SizeBytes(), rate)
}

// String describes the set in one line.
func (s Bitset) String() string {
	return fmt.Sprintf("sketch.Bitset: %d numbers below %d in %d bits, exactly", s.count, s.Limit(), 8*uint64(s.SizeBytes()))
}

// String describes the filter, and the filter below it, in one line.
func (e Exact) String() string {
	if e.filter == nil {
		return "sketch.Exact: " + form.Zero
	}
	return fmt.Sprintf("sketch.Exact: %d absent keys known beside a %s", e.Len(), form.NameOf(e.filter))
}

// String describes the filter below in one line.
func (v View[T]) String() string { return v.describe("sketch.View: ") }

// String describes the filter below in one line.
func (o Of[T]) String() string { return o.describe("sketch.Of: ") }

// String describes the filter below in one line.
func (o OfRemover[T]) String() string { return o.describe("sketch.OfRemover: ") }

func (v *View[T]) describe(kind string) string {
	if v.set == nil {
		return kind + form.Zero
	}
	return kind + "values in a " + form.NameOf(v.set)
}
