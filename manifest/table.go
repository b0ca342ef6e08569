package manifest

import (
	"bytes"
	"fmt"
	"math"
	"sort"

	"github.com/shaledb/shale/internal/base"
)

// NumLevels is the number of levels. Level 0 holds flushed runs, level
// NumLevels-1 the oldest data.
const NumLevels = base.NumLevels

// maxTableSize bounds the size of a table that an edit may state, so that the
// bytes of a level can be summed without overflow.
const maxTableSize = 1 << 46

// maxFilterBits is more bits a key than any filter has.
const maxFilterBits = 1024

// A Table describes a table file: what a store must know of it without opening
// it. It is never changed once it stands in a Version.
type Table struct {
	Num      base.FileNum
	Size     int64  // of the file
	Checksum uint32 // of the file, as its writer stated it

	// User keys, both inclusive.
	Smallest, Largest []byte
	MinSeq, MaxSeq    base.Seq

	Entries    uint64 // versions of keys, tombstones among them
	Tombstones uint64
	Keys       uint64 // distinct user keys

	RawKeyBytes, RawValueBytes uint64

	// Of the filter in the file.
	FilterBytes int64   // 0: no filter
	FilterBits  float64 // a key

	// Sidecar holds the filter to use. Nil: the one in the file is.
	Sidecar *Sidecar
}

// check tells what is impossible about t.
func (t *Table) check() error {
	switch {
	case t.Num == 0:
		return fmt.Errorf("table number is 0")
	case t.Size <= 0 || t.Size > maxTableSize:
		return fmt.Errorf("table %s: size %d is not in [1, %d]", t.Num, t.Size, int64(maxTableSize))
	case bytes.Compare(t.Smallest, t.Largest) > 0:
		return fmt.Errorf("table %s: smallest key %q is above the largest, %q", t.Num, t.Smallest, t.Largest)
	case t.MinSeq > t.MaxSeq || t.MaxSeq > base.MaxSeq:
		return fmt.Errorf("table %s: sequence numbers %d to %d", t.Num, t.MinSeq, t.MaxSeq)
	case t.Keys == 0 || t.Keys > t.Entries || t.Tombstones > t.Entries:
		return fmt.Errorf("table %s: %d entries with %d keys and %d tombstones", t.Num, t.Entries, t.Keys, t.Tombstones)
	case t.FilterBytes < 0 || t.FilterBytes > t.Size:
		return fmt.Errorf("table %s: filter of %d bytes in a file of %d", t.Num, t.FilterBytes, t.Size)
	case math.IsNaN(t.FilterBits) || t.FilterBits < 0 || t.FilterBits > maxFilterBits:
		return fmt.Errorf("table %s: filter of %v bits a key", t.Num, t.FilterBits)
	case t.Sidecar != nil:
		if err := t.Sidecar.check(); err != nil {
			return fmt.Errorf("table %s: %w", t.Num, err)
		}
	}
	return nil
}

// Dense says that a quarter of the entries or more are tombstones.
func (t *Table) Dense() bool {
	return t.Tombstones > 0 && t.Tombstones >= t.Entries/4+min(1, t.Entries%4)
}

// Totals are sums over tables.
type Totals struct {
	Tables      int
	Dense       int // tables rich in tombstones
	Bytes       int64
	Entries     uint64
	Tombstones  uint64
	Keys        uint64
	FilterBytes int64
}

// Add adds o to t.
func (t *Totals) Add(o Totals) {
	t.Tables += o.Tables
	t.Dense += o.Dense
	t.Bytes += o.Bytes
	t.Entries += o.Entries
	t.Tombstones += o.Tombstones
	t.Keys += o.Keys
	t.FilterBytes += o.FilterBytes
}

// subtract takes o, which was added before, out of t.
func (t *Totals) subtract(o Totals) {
	t.Tables -= o.Tables
	t.Dense -= o.Dense
	t.Bytes -= o.Bytes
	t.Entries -= o.Entries
	t.Tombstones -= o.Tombstones
	t.Keys -= o.Keys
	t.FilterBytes -= o.FilterBytes
}

// TotalsOf sums over tables.
func TotalsOf(tables []*Table) Totals {
	sum := Totals{Tables: len(tables)}
	for _, t := range tables {
		sum.Bytes += t.Size
		if t.Dense() {
			sum.Dense++
		}
		sum.Entries += t.Entries
		sum.Tombstones += t.Tombstones
		sum.Keys += t.Keys
		sum.FilterBytes += t.FilterBytes
	}
	return sum
}

// A Run is a sequence of tables with disjoint ranges of user keys, in their
// order. All versions of a user key that the run holds are in one of them.
type Run struct {
	ID     uint64 // among the runs of a level, the higher the newer
	Tables []*Table

	totals Totals // of Tables; zero in a run that was not made by this package
}

// Totals returns the sums over the run's tables.
func (r *Run) Totals() Totals {
	if r.totals.Tables == len(r.Tables) {
		return r.totals
	}
	return TotalsOf(r.Tables)
}

// Find returns the index of the first table whose largest key is at or above
// key; len(r.Tables) if there is none.
func (r *Run) Find(key []byte) int {
	return sort.Search(len(r.Tables), func(i int) bool {
		return bytes.Compare(r.Tables[i].Largest, key) >= 0
	})
}

// Overlaps returns the tables that may hold a user key in [lo, hi], as a part
// of r.Tables. A nil hi has no bound.
func (r *Run) Overlaps(lo, hi []byte) []*Table {
	first := r.Find(lo)
	rest := r.Tables[first:]
	if hi == nil {
		return rest
	}
	most := 1 // most ranges are over few tables
	for most < len(rest) && bytes.Compare(rest[most].Smallest, hi) <= 0 {
		most *= 2
	}
	n := sort.Search(min(most, len(rest)), func(i int) bool {
		return bytes.Compare(rest[i].Smallest, hi) > 0
	})
	return rest[:n]
}
