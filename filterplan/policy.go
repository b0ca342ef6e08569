package filterplan

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
