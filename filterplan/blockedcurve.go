package filterplan

import (
	"math"
	"sort"
	"sync"

	"github.com/shaledb/shale/bloom"
)

// ratesPerBit is the resolution of a rateTable.
const ratesPerBit = 8

// A rateTable holds the logarithms of the false positive rates of filters with
// minBits to maxBits a key, falling. A solve asks for thousands, and a sum of
// Poisson terms each time would take longer than a small compaction.
type rateTable [(maxBits-minBits)*ratesPerBit + 1]float64

var rates = sync.OnceValue(func() *rateTable {
	var t rateTable
	for i := range t {
		t[i] = math.Log(bloom.PredictFPR(minBits + float64(i)/ratesPerBit))
		if i > 0 {
			t[i] = min(t[i], t[i-1])
		}
	}
	return &t
})

// bitsFor returns the bits a key for a logarithm of a rate, within the bounds.
func (t *rateTable) bitsFor(lnP float64) float64 {
	i := sort.Search(len(t), func(i int) bool { return t[i] <= lnP })
	if i == 0 || i == len(t) {
		return minBits + float64(min(i, len(t)-1))/ratesPerBit
	}
	step := t[i-1] - t[i]
	if step > 0.3 { // where a second unit begins the rate jumps: nothing lies between
		return minBits + float64(i)/ratesPerBit
	}
	return minBits + (float64(i)-(lnP-t[i])/step)/ratesPerBit
}

// at returns the logarithm of the rate of a filter; 0 bits: there is none.
func (t *rateTable) at(bits float64) float64 {
	x := (bits - minBits) * ratesPerBit
	if x < 0 {
		return 0
	}
	i := min(int(x), len(t)-2)
	if t[i]-t[i+1] > 0.3 && x < float64(i+1) {
		return t[i]
	}
	return t[i] + (x-float64(i))*(t[i+1]-t[i])
}
