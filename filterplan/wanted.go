package filterplan

import (
	"math"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
)

const (
	// filterOverhead is about how many bytes a filter takes in addition to its bits a
	// key: a trailer, and lines that are not full.
	filterOverhead = 96
	// enoughBits is the part of the wanted bits a key that is enough for a filter.
	enoughBits = 0.9
)

// WantedFilters says which filter each table of a tree should have. It does not
// change once it is made.
type WantedFilters struct {
	policy      Policy
	plan        Plan
	memoryShort bool
}

// WantedFilters returns the filters that the tables of a tree should have. tables is the
// number of tables, and storedBytes the size of their filters as they are stored now.
func (p Policy) WantedFilters(tree Tree, shares ProbeShares, tables int, storedBytes int64) WantedFilters {
	w := WantedFilters{policy: p, memoryShort: p.Memory > 0 && storedBytes > p.Memory}
	if p.Memory > 0 {
		// All filters must fit into the memory: one byte too many would keep a whole
		// filter, or the second half of it, out of it.
		p.Memory = max(p.Memory-filterOverhead*int64(tables), p.Memory/2)
	}
	w.plan = p.Plan(tree, shares)
	return w
}

// Of returns the filter that the tables of a run should have.
func (w WantedFilters) Of(level int, run uint64) WantedFilter {
	return WantedFilter{
		StaticOptions: bloom.StaticOptions{
			Kind:       w.policy.Kind(level),
			BitsPerKey: w.plan.Bits(level, run),
			Hasher:     w.policy.Hasher,
		},
		PrefixRule:  w.policy.PrefixRule,
		memoryShort: w.memoryShort,
	}
}

// A WantedFilter is the filter that a table should have. If BitsPerKey is 0, it
// should have none.
type WantedFilter struct {
	bloom.StaticOptions
	PrefixRule base.PrefixRule
	// memoryShort says that Policy.Memory is less than all filters take as they
	// are stored now. A filter that is too large then takes memory from others.
	memoryShort bool
}

// A StoredFilter is the filter of a table as its file has it. Filter is nil if the
// table has none that can be used.
type StoredFilter struct {
	Filter     *bloom.Static
	PrefixRule base.PrefixRule
}

// SatisfiedBy reports whether a table may keep the filter that it
// has. resident is the part of the filter that is in memory, or nil.
//
// A filter needs the wanted kind, hash function and rule of prefixes, and at least nine
// tenths of the wanted bits. The bits are judged by the false positive rate, whose logarithm
// is in proportion to them. A filter with more bits is kept too, unless memory is short or
// the filter itself does not fit into it. A table that should have no filter may keep any.
func (w WantedFilter) SatisfiedBy(stored StoredFilter, resident *bloom.Static) bool {
	if w.BitsPerKey <= 0 {
		return true
	}
	f := stored.Filter
	if f == nil {
		return false
	}
	kind, fpr := ChooseKind(int(min(f.Count(), math.MaxInt32)), w.StaticOptions)
	if f.Kind() != kind || f.Hasher() != w.Hasher || stored.PrefixRule != w.PrefixRule {
		return false
	}
	most := enoughBits * math.Log(fpr)
	if math.Log(f.FPR()) > most {
		return false
	}
	fits := resident != nil && math.Log(resident.FPR()) <= most
	if fits && !w.memoryShort {
		return true
	}
	return f.BitsPerKey() <= min(w.BitsPerKey, bloom.MaxBits)/enoughBits
}

// SameAs reports whether two filters of the same keys were made in the same way. A
// filter that does not satisfy what is wanted may still be the best that can be made:
// for a few keys there is only one size, and sometimes no fuse filter can be built.
// To write such a filter again would change nothing.
func (s StoredFilter) SameAs(other StoredFilter) bool {
	a, b := s.Filter, other.Filter
	return a != nil && b != nil && s.PrefixRule == other.PrefixRule &&
		a.Kind() == b.Kind() && a.Hasher() == b.Hasher() && a.SizeBytes() == b.SizeBytes()
}
