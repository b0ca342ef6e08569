package form

import "math"

// MaxBytes limits the size of a filter, so that a mistaken number does not take all the
// memory of the machine: 128 GiB, and 1 GiB where an int has 32 bits. No form of a filter
// then has a length that overflows an int.
const MaxBytes = min(1<<37, math.MaxInt/2)

// MaxScratch is the capacity, in bytes, of the largest buffer that is kept for another key.
const MaxScratch = 1 << 16

// Whole returns x as an integer, or the nearest one that a uint64 can hold.
// Requires: x is not NaN.
func Whole(x float64) uint64 {
	switch {
	case x >= math.MaxUint64:
		return math.MaxUint64
	case x <= 0:
		return 0
	}
	return uint64(x)
}
