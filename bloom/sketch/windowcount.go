package sketch

import (
	"math"
	"time"

	"github.com/shaledb/shale/bloom"
)

// Hasher returns the hash function, for the methods that take hashes.
func (w *Window) Hasher() bloom.Hasher { return w.hasher }

// Age returns how long a key is remembered at least, or 0 for a window by number.
func (w *Window) Age() time.Duration { return time.Duration(w.age) }

// Generations returns the number of steps in which the window moves: a full window has as
// many generations, and the newest one.
func (w *Window) Generations() int { return max(len(w.lanes)-1, 0) }

// Count returns how many keys the generations of the window have. A key that was added again
// in a later generation counts once for each of them.
func (w *Window) Count() (n uint64) {
	live := w.live()
	for _, l := range w.layers {
		for lane, count := range l.counts {
			n += live >> lane & 1 * count
		}
	}
	return n
}

// EstimatedCount estimates how many different keys the window has: those that were added at
// Oldest or later. Each key is counted where it was added last. The estimate is too low by
// the share of keys that were false positives when they came, which is less than FPR.
func (w *Window) EstimatedCount() float64 {
	n, live := uint64(0), w.live()
	for lane, g := range w.lanes {
		n += live >> lane & 1 * g.latest
	}
	return float64(n)
}

// SizeBytes returns the memory that the bits take.
func (w *Window) SizeBytes() (n int) {
	for i := range w.layers {
		n += w.layers[i].size()
	}
	return n
}

// FPR returns the share of absent keys that pass with the bits that are set at the moment.
// It counts them, which takes some milliseconds for a megabyte with 8 generations.
func (w *Window) FPR() float64 {
	if len(w.layers) == 0 {
		return 1
	}
	return w.passing(func(l *windowLayer, lane int) float64 { return float64(l.ones(lane)) / float64(l.m) })
}

// passing returns the share of absent keys that pass any of the generations that are kept,
// from the share of bits that are set in each.
func (w *Window) passing(fill func(l *windowLayer, lane int) float64) float64 {
	live, denied := w.live(), 1.0
	for i := range w.layers {
		l := &w.layers[i]
		for lane := range w.lanes {
			if live>>lane&1 != 0 {
				denied *= 1 - math.Pow(fill(l, lane), float64(l.k))
			}
		}
	}
	return 1 - denied
}

// Reset removes all keys, and all layers but the first.
func (w *Window) Reset() {
	if len(w.layers) == 0 {
		return
	}
	w.drop(w.all())
	w.begin()
}

// Clone returns a copy with the same clock. Changes of one do not change the other.
func (w *Window) Clone() *Window {
	c := *w
	c.lanes = append([]generation(nil), w.lanes...)
	c.layers = append([]windowLayer(nil), w.layers...)
	for i := range c.layers {
		l := &c.layers[i]
		l.bytes, l.shared = append([]byte(nil), l.bytes...), false
		clear(l.bytes[len(l.bytes)-slotPad:])
		l.counts = append([]uint64(nil), l.counts...)
	}
	return &c
}
