package filterplan

import (
	"math"

	"github.com/shaledb/shale/bloom"
)

// A curve relates the bits a key of a kind of filter to the logarithm of its
// false positive rate.
type curve interface {
	// bitsFor returns the bits a key for a rate, within the bounds of the kind.
	bitsFor(lnP float64) float64
	// at returns the rate; 0 bits: there is no filter.
	at(bits float64) float64
}

// The widths of a fuse filter's fingerprints.
const minWidth, maxWidth = 4, 16

// A fuseCurve is that of binary fuse filters: the bits a key for each width. It
// has steps.
type fuseCurve [maxWidth + 1]float64

// newFuseCurve returns the curve for tables of so many keys. It counts with a
// quarter fewer: a table with fewer keys has more bits a key, and if the bits did
// not suffice it would have to take fingerprints that let pass twice as much.
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
