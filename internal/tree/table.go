package tree

import (
	"fmt"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A Table is an open table of the store.
type Table struct {
	// Constant. The current sidecar is not here, because it changes: see Version.
	Meta   *manifest.Table
	Reader *sstable.Reader
	file   *filecache.File
	opened *Sidecar // the sidecar that the table had when it was opened, usable or not; nil: none

	born uint64 // number of the first version with the table; guarded by the tree's mu

	FilterLost atomic.Bool                // the filter is damaged, as a later read has found, and is not tried again
	Worse      atomic.Bool                // an event has reported that the filter is worse than predicted
	besideBits atomic.Pointer[float64]    // bits a key of the sidecar's filter; nil: no sidecar
	prediction atomic.Pointer[prediction] // see PredictedFPR

	// Negatives and FalsePositives count lookups that did not find their key in the
	// table. Only some lookups count a negative, and each of these counts for
	// several. So a miss does not write to a cache line of every table that it asks.
	// They are in another cache line than Meta and Reader, which every lookup reads.
	// With them the struct ends at 128 bytes, so the next one in memory begins with a line.
	_              [48]byte
	Negatives      atomic.Uint64
	FalsePositives atomic.Uint64
}

// Filter returns the resident filter, or nil if there is none.
func (t *Table) Filter() *bloom.Static { return t.Reader.Filter() }

// NeededFilter is Filter for who is about to ask it. What Open has left is loaded by the first.
func (t *Table) NeededFilter() *bloom.Static { return t.Reader.NeededFilter() }

// OpenTable opens the table that meta describes and loads its index and its filter.
// The caller calls Close on the table, or makes it part of a version.
func (t *Tree) OpenTable(meta *manifest.Table) (*Table, error) {
	return t.openTable(meta, t.env.Reading())
}

// openTable is OpenTable with options. It sets those that depend on the table.
func (t *Tree) openTable(meta *manifest.Table, opts sstable.ReaderOptions) (*Table, error) {
	file := t.env.Files.Add(t.path(base.TableName(meta.Num)))
	beside := t.NewSidecar(meta, meta.Sidecar)
	opts.Rules, opts.Sidecar = &t.rules, beside.forReader()
	opts.Num, opts.Size, opts.Checksum, opts.Seq = meta.Num, meta.Size, meta.Checksum, meta.MaxSeq
	reader, err := sstable.Open(file, opts)
	if base.Lasts(err) && file.Lost() {
		reader, err = sstable.OpenLost(file, opts, meta.Keys, err), nil
	}
	if err != nil {
		file.Close()
		beside.Close()
		return nil, fmt.Errorf("shale: open table %d: %w", uint64(meta.Num), err)
	}
	opened := &Table{Meta: meta, Reader: reader, file: file, opened: beside}
	if beside != nil {
		opened.besideBits.Store(&beside.Meta.FilterBits)
	}
	return opened, nil
}

// Number gives all entries of an ingested table their sequence number. Requires:
// the table is in no version, and nobody else has read from it.
func (t *Table) Number(seq base.Seq) {
	t.Meta.MinSeq, t.Meta.MaxSeq = seq, seq
	t.Reader.Number(seq)
}

// Close closes the file of a table that is in no version: in none any more, or in none so far,
// and it will not be. Its memory can be freed when the lookups in progress have ended.
func (t *Table) Close() {
	t.file.Close()
	t.Reader.Retire()
}

// PredictedFPR returns the chance that a lookup of an absent key in the table's
// range reads a block. It computes the rate once for each filter, because that
// takes microseconds and Metrics asks for it in thousands of tables.
func (t *Table) PredictedFPR() float64 {
	f := t.Filter()
	if f == nil {
		return 1
	}
	p := t.prediction.Load()
	if p == nil || p.size != f.SizeBytes() || p.kind != f.Kind() {
		p = &prediction{size: f.SizeBytes(), kind: f.Kind(), fpr: f.FPR()}
		t.prediction.Store(p)
	}
	return p.fpr
}

// A prediction is the predicted false positive rate of a filter. It identifies
// the filter by its kind and size. The size differs with and without the
// second unit. A pointer to the filter would keep a dropped filter in memory.
type prediction struct {
	size int
	kind bloom.Kind
	fpr  float64
}
