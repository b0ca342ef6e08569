package filterplan

import (
	"math"

	"github.com/shaledb/shale/bloom"
)

// A curve relates the bits a key of filters of one kind to the logarithm of their false
// positive rate.
type curve interface {
	// bitsFor returns how many bits a key give a rate with this logarithm, or the least
	// or the most bits of the kind if no filter has that rate.
	bitsFor(lnP float64) float64
	// at returns the logarithm of the rate. With 0 bits there is no filter, and the
	// rate is 1.
	at(bits float64) float64
}

// The least and the largest width of a fuse filter's fingerprints, in bits.
const minWidth, maxWidth = 4, 16

// A fuseCurve is the curve of binary fuse filters: the bits a key by the width of the
// fingerprints. It has steps, because widths are whole numbers.
type fuseCurve [maxWidth + 1]float64

// newFuseCurve returns the curve for tables of tableKeys keys. It is computed for a
// quarter fewer, because tables differ: a table with fewer keys needs more bits a key,
// and if it did not get them, it would have to take narrower fingerprints, with twice
// the false positives.
func newFuseCurve(tableKeys int) *fuseCurve {
	var c fuseCurve
	for r := minWidth; r <= maxWidth; r++ {
		c[r] = bloom.FuseBits(tableKeys*3/4, r)
	}
	return &c
}

func (c *fuseCurve) bitsFor(lnP float64) float64 {
	r := int(math.Ceil(-lnP/math.Ln2 - 1e-9))
	return c[max(minWidth, min(r, maxWidth))]
}

func (c *fuseCurve) at(bits float64) float64 {
	for r := maxWidth; r >= minWidth; r-- {
		if c[r] <= bits {
			return -float64(r) * math.Ln2
		}
	}
	return 0
}
