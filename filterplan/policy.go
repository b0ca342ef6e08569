package filterplan

import (
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

// FlushBits is how many bits a key the filters of level 0 have. Its runs hold
// little of the data, and every lookup asks all of them.
const FlushBits = 24

// A Policy is what the options of a store say about its filters.
type Policy struct {
	// AverageBits is the memory for filters in bits a key, as an average over all
	// runs. If it is 0 or less, no table gets a filter.
	AverageBits float64
	// Memory is how many bytes all filters together may take. If it is not 0, it
	// takes the place of AverageBits.
	Memory int64
	// LastLevelFuse says that tables of the last level get binary fuse filters.
	LastLevelFuse bool
	// Hasher hashes the keys of filters.
	Hasher bloom.Hasher
	// PrefixRule says which prefixes of keys are in filters, too.
	PrefixRule base.PrefixRule
}

// FlushBits returns how many bits a key the filter of a flushed table has; 0: it
// has none.
func (p Policy) FlushBits() float64 {
	if p.AverageBits <= 0 {
		return 0
	}
	return FlushBits
}

// IngestBits returns how many bits a key the filter of an ingested table has; 0: it
// has none. It is the average, because the level of the table is chosen only after
// the table is written.
func (p Policy) IngestBits() float64 { return max(p.AverageBits, 0) }

// Budget returns how many bytes the resident filters may take in a store with this
// number of keys.
//
// If Memory does not say so, the budget is well above AverageBits. Only filters that
// are far too rich exceed it: flushed tables have rich filters, and if keys come in
// order, such tables move down to the last level as they are.
func (p Policy) Budget(keys uint64) int64 {
	if p.Memory > 0 {
		return p.Memory
	}
	return 1<<20 + int64(1.25*max(p.AverageBits, 0)/8*float64(keys))
}
