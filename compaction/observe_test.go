package compaction

import (
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/filterplan"
	"github.com/shaledb/shale/manifest"
)

// observations are measurements of a simulation's trees.
type observations struct {
	maxRuns, maxLevel0 int
	samples            float64
	met                float64 // runs that a lookup asks
	rate               float64 // sum of the false positive rates of these
	bits               float64 // of filters, a key
	amplified          float64 // entries for each key that is there
	peak               float64 // the same, at most, with outputs before inputs go

	// rates caches false positive rates by the bits a key. To compute
	// the rate for each of a million tables would take too long.
	rates map[float64]float64
}

// runs notes the largest number of runs.
func (o *observations) runs(v *manifest.Version) {
	runs := 0
	for level := range v.Levels {
		runs += len(v.Levels[level].Runs)
	}
	o.maxRuns = max(o.maxRuns, runs)
	o.maxLevel0 = max(o.maxLevel0, len(v.Levels[0].Runs))
}

// space notes how many bytes a store takes while a plan writes its output.
func (o *observations) space(s *simulation, written float64) {
	sum := written
	for level := range s.v.Levels {
		sum += float64(s.v.Bytes(level))
	}
	o.peak = max(o.peak, sum/(s.keys*tableEntry))
}

// sample looks at all tables. A lookup of any key, present
// or absent, may fall anywhere in the range of keys.
func (o *observations) sample(s *simulation) {
	o.samples++
	var bits, keys float64
	for level := range s.v.Levels {
		for _, run := range s.v.Levels[level].Runs {
			for _, t := range run.Tables {
				c := s.content[t.Num]
				share := float64(c.hi()-c.lo) / keySpace
				o.met += share
				o.rate += share * o.blockedFPR(t.FilterBits)
				bits += t.FilterBits * float64(t.Keys)
				keys += float64(t.Keys)
			}
		}
	}
	o.bits += bits / keys
	o.amplified += keys / s.keys
}

// blockedFPR returns the false positive rate of a
// blocked filter. With 0 bits there is no filter.
func (o *observations) blockedFPR(bits float64) float64 {
	if bits == 0 {
		return 1
	}
	rate, known := o.rates[bits]
	if !known {
		rate = bloom.PredictFPR(min(bits, filterplan.FlushBits))
		if o.rates == nil {
			o.rates = make(map[float64]float64)
		}
		o.rates[bits] = rate
	}
	return rate
}

// means returns the measurements, with sums divided by the number of samples.
func (o observations) means() observations {
	o.met /= o.samples
	o.rate /= o.samples
	o.bits /= o.samples
	o.amplified /= o.samples
	return o
}
