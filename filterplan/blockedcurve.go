package filterplan

import (
	"math"
	"sort"
	"sync"

	"github.com/shaledb/shale/bloom"
)

// ratesPerBit is the resolution of a blockedCurve.
const ratesPerBit = 8

// A blockedCurve is the curve of blocked filters. It holds the logarithms of the false
// positive rates of filters with minBits to maxBits a key, in steps. They fall. A
// solver asks for thousands of rates. To work each out, which is a sum of Poisson
// terms, would take longer than a small compaction.
type blockedCurve [(maxBits-minBits)*ratesPerBit + 1]float64

// theBlockedCurve returns the one blockedCurve, which is worked out when it is first
// needed.
var theBlockedCurve = sync.OnceValue(func() *blockedCurve {
	var t blockedCurve
	for i := range t {
		t[i] = math.Log(bloom.PredictFPR(minBits + float64(i)/ratesPerBit))
		if i > 0 {
			t[i] = min(t[i], t[i-1])
		}
	}
	return &t
})

// bitsFor returns how many bits a key give a rate with this logarithm, or minBits or
// maxBits if no filter has that rate.
func (t *blockedCurve) bitsFor(lnP float64) float64 {
	i := sort.Search(len(t), func(i int) bool { return t[i] <= lnP })
	if i == 0 || i == len(t) {
		return minBits + float64(min(i, len(t)-1))/ratesPerBit
	}
	step := t[i-1] - t[i]
	if step > 0.3 { // The rate jumps where a second unit begins. No filter has a rate in between.
		return minBits + float64(i)/ratesPerBit
	}
	return minBits + (float64(i)-(lnP-t[i])/step)/ratesPerBit
}

// at returns the logarithm of the rate of a filter. With 0 bits there is no filter, and
// the rate is 1.
func (t *blockedCurve) at(bits float64) float64 {
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
