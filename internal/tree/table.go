package tree

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A Table is an open table of the store.
type Table struct {
	// Constant. What stands beside the table changes: the version has that.
	Meta   *manifest.Table
	Reader *sstable.Reader
	file   *filecache.File
	opened *Sidecar // what stood beside it when it was opened, usable or not; nil: nothing

	// refs counts the runs that have the table and are in a version. Guarded by the mu of the tree.
	refs int

	// What lookups found here. They count negatives on few of them, weighted, so that a
	// miss does not have to write a cache line for every table.
	Negatives      atomic.Uint64
	FalsePositives atomic.Uint64

	FilterLost atomic.Bool                // the filter can't be read again
	Worse      atomic.Bool                // it was reported that the filter is worse than predicted
	besideBits atomic.Pointer[float64]    // bits a key of the sidecar; nil: there is none
	prediction atomic.Pointer[prediction] // for the filter that was resident when it was asked for
}

// Filter returns the resident filter, nil if there is none.
func (t *Table) Filter() *bloom.Static { return t.Reader.Filter() }

// OpenTable opens the table that meta describes and loads its index, and its
// filter if asked to. The caller closes it with Close, or makes it part of a
// version.
func (t *Tree) OpenTable(meta *manifest.Table, withFilter bool) (*Table, error) {
	file := t.env.Files.Add(t.path(base.TableName(meta.Num)))
	beside := t.NewSidecar(meta, meta.Sidecar)
	opts := t.env.Reading()
	opts.Sidecar = beside.forReader()
	opts.Num, opts.Size, opts.Checksum, opts.Seq = meta.Num, meta.Size, meta.Checksum, meta.MaxSeq
	opts.NoFilter = opts.NoFilter || !withFilter
	reader, err := sstable.Open(file, opts)
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

// openTables opens the tables of v in parallel: what takes the time is reading filters
// and indexes.
func (t *Tree) openTables(v *manifest.Version, withFilters bool) ([]*Table, error) {
	const workers = 8
	metas := slices.Collect(v.Tables())
	tables := make([]*Table, len(metas))
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range min(workers, len(metas)) {
		wg.Go(func() {
			for i := w; i < len(metas) && errs[w] == nil; i += workers {
				tables[i], errs[w] = t.OpenTable(metas[i], withFilters)
				errs[w] = base.MissingIsDamage(errs[w], base.TableName(metas[i].Num))
			}
		})
	}
	wg.Wait()
	return tables, errors.Join(errs...)
}

// Close closes the file of a table that did not become part of a version.
func (t *Table) Close() { t.file.Close() }

// Retire ends the use of a table that no version has any more.
func (t *Table) Retire() {
	t.file.Close()
	t.Reader.Retire()
}

// PredictedFPR is the chance that a lookup of an absent key in the table's
// range reads a block. It is worked out once for a filter: a sum of
// microseconds, which Metrics would pay for each of thousands of tables.
func (t *Table) PredictedFPR() float64 {
	f := t.Filter()
	if f == nil {
		return 1
	}
	p := t.prediction.Load()
	if p == nil || p.size != f.SizeBytes() || p.kind != f.Kind() {
		p = &prediction{size: f.SizeBytes(), kind: f.Kind(), fpr: f.PredictedFPR()}
		t.prediction.Store(p)
	}
	return p.fpr
}

// A prediction is the false positive rate that a filter promises. It recognises
// the filter by its kind and its size, which differs with and without the second
// unit. A pointer would keep a dropped filter alive.
type prediction struct {
	size int
	kind bloom.Kind
	fpr  float64
}
