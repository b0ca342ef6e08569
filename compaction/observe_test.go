package compaction

import (
	"math"

	"github.com/shaledb/shale/manifest"
)

// observations are what a simulation has seen of its trees.
type observations struct {
	maxRuns, maxLevel0 int
	samples            float64
	met                float64 // runs that a lookup asks
	rate               float64 // sum of the false positive rates of these
	bits               float64 // of filters, a key
	amplified          float64 // entries for each key that is there
	peak               float64 // the same, at most, with outputs before inputs go
}

// runs notes how many runs there are at most.
func (o *observations) runs(v *manifest.Version) {
	o.maxRuns = max(o.maxRuns, v.NumRuns())
	o.maxLevel0 = max(o.maxLevel0, len(v.Levels[0].Runs))
}

// space notes how much a store takes while a plan writes so many bytes.
func (o *observations) space(s *simulation, written float64) {
	sum := written
	for level := range s.v.Levels {
		sum += float64(s.v.Bytes(level))
	}
	o.peak = max(o.peak, sum/(s.keys*tableEntry))
}

// sample looks at all tables. A lookup of any key, present or absent, may fall
// anywhere in the range of keys.
func (o *observations) sample(s *simulation) {
	o.samples++
	var bits, keys float64
	for level := range s.v.Levels {
		for _, run := range s.v.Levels[level].Runs {
			for _, t := range run.Tables {
				c := s.content[t.Num]
				share := float64(c.hi()-c.lo) / keySpace
				o.met += share
				o.rate += share * math.Exp(rates().at(min(t.FilterBits, maxBits)))
				bits += t.FilterBits * float64(t.Keys)
				keys += float64(t.Keys)
			}
		}
	}
	o.bits += bits / keys
	o.amplified += keys / s.keys
}

// means returns what was seen with sums divided by the samples.
func (o observations) means() observations {
	o.met /= o.samples
	o.rate /= o.samples
	o.bits /= o.samples
	o.amplified /= o.samples
	return o
}
