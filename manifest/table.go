package manifest

import (
	"bytes"
	"fmt"
	"math"
	"sort"

	"github.com/shaledb/shale/internal/base"
)

// NumLevels is the number of levels. Level 0 has the flushed runs, and level NumLevels-1 the
// oldest data.
const NumLevels = base.NumLevels

// maxTableSize is the largest size of a table, in bytes, that an edit may state. With this
// limit the sum of a level can't overflow.
const maxTableSize = 1 << 46

// maxFilterBits is the largest number of filter bits for each key that an edit may state. No
// filter has as many.
const maxFilterBits = 1024

// A Table describes a table: what a store must know about it without opening its file. It is
// immutable once it is in a Version.
type Table struct {
	Num      base.FileNum
	Size     int64  // of the file, in bytes
	Checksum uint32 // of the file, as sstable.Info states it

	// User keys, both inclusive.
	Smallest, Largest []byte
	MinSeq, MaxSeq    base.Seq

	Entries    uint64 // versions of keys, including tombstones
	Tombstones uint64
	Keys       uint64 // distinct user keys

	RawKeyBytes, RawValueBytes uint64

	Facts // what the edit states in a field of its own

	// The filter in the table's file.
	FilterBytes int64   // its length; 0: there is none
	FilterBits  float64 // its bits for each key

	// Sidecar is the file with the filter to use. nil: the one in the table is used.
	Sidecar *Sidecar
}

// check returns what is impossible about t, or nil.
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
	case t.Facts.check(t) != nil:
		return fmt.Errorf("table %s: %w", t.Num, t.Facts.check(t))
	case t.Sidecar != nil:
		if err := t.Sidecar.check(); err != nil {
			return fmt.Errorf("table %s: %w", t.Num, err)
		}
	}
	return nil
}

// Dense reports whether at least a quarter of the entries are tombstones.
func (t *Table) Dense() bool { return dense(t.Tombstones, t.Entries) }

// dense reports whether n is at least a quarter of the entries, rounded up.
func dense(n, entries uint64) bool { return n > 0 && n >= entries/4+min(1, entries%4) }

// Totals are the sums over some tables.
type Totals struct {
	Tables      int
	Dense       int // number of tables for which Table.Dense is true
	Bytes       int64
	Entries     uint64
	Tombstones  uint64
	Expiring    uint64 // entries that expire
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
	t.Expiring += o.Expiring
	t.Keys += o.Keys
	t.FilterBytes += o.FilterBytes
}

// subtract takes the sums o, which were added before, from t.
func (t *Totals) subtract(o Totals) {
	t.Tables -= o.Tables
	t.Dense -= o.Dense
	t.Bytes -= o.Bytes
	t.Entries -= o.Entries
	t.Tombstones -= o.Tombstones
	t.Expiring -= o.Expiring
	t.Keys -= o.Keys
	t.FilterBytes -= o.FilterBytes
}

// TotalsOf returns the sums over tables.
func TotalsOf(tables []*Table) Totals {
	sum := Totals{Tables: len(tables)}
	for _, t := range tables {
		sum.Bytes += t.Size
		if t.Dense() {
			sum.Dense++
		}
		sum.Entries += t.Entries
		sum.Tombstones += t.Tombstones
		sum.Expiring += t.Expiring
		sum.Keys += t.Keys
		sum.FilterBytes += t.FilterBytes
	}
	return sum
}

// A Run is a sequence of tables in the order of their keys. Their ranges of user keys do not
// overlap. So all versions of a user key that the run has are in one table.
type Run struct {
	ID     uint64 // of two runs of a level, the one with the higher ID is newer
	Tables []*Table

	// Known of a run that this package has made, and zero in others.
	totals Totals // the sums over Tables
}

// Totals returns the sums over the run's tables. They were computed when the run was made, if
// this package has made it.
func (r *Run) Totals() Totals {
	if r.totals.Tables == len(r.Tables) {
		return r.totals
	}
	return TotalsOf(r.Tables)
}

// Find returns the index of the first table whose largest key is at or after key, or
// len(r.Tables) if there is none.
func (r *Run) Find(key []byte) int {
	return sort.Search(len(r.Tables), func(i int) bool {
		return bytes.Compare(r.Tables[i].Largest, key) >= 0
	})
}

// Overlaps returns the tables that may have a user key in [lo, hi]. The result is a part of
// r.Tables. If hi is nil, there is no upper bound.
func (r *Run) Overlaps(lo, hi []byte) []*Table {
	first := r.Find(lo)
	rest := r.Tables[first:]
	if hi == nil {
		return rest
	}
	most := 1 // most ranges overlap few tables, so the end is searched near the beginning
	for most < len(rest) && bytes.Compare(rest[most].Smallest, hi) <= 0 {
		most *= 2
	}
	n := sort.Search(min(most, len(rest)), func(i int) bool {
		return bytes.Compare(rest[i].Smallest, hi) > 0
	})
	return rest[:n]
}
