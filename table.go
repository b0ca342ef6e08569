package shale

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A table is an open table of the store.
type table struct {
	// Constant. What stands beside the table changes: the version has that.
	meta   *manifest.Table
	reader *sstable.Reader
	file   *filecache.File
	opened *sidecar // what stood beside it when it was opened, usable or not; nil: nothing

	// refs counts the runs that have the table and are in a version. Guarded by the mu of the tree.
	refs int

	// What lookups found here. Negatives of a single table are counted on one
	// lookup in sampleEvery, weighted, so that a miss does not have to write a
	// cache line for every table; those of a level are exact (levelCounters).
	negatives      atomic.Uint64
	falsePositives atomic.Uint64

	besideBits atomic.Pointer[float64]    // bits a key of the sidecar; nil: there is none
	filterLost atomic.Bool                // it can't be read again
	worse      atomic.Bool                // that its filter is worse than predicted was told
	prediction atomic.Pointer[prediction] // for the filter that was resident when it was asked for
}

// filter returns the resident filter, nil if there is none.
func (t *table) filter() *bloom.Static { return t.reader.Filter() }

// openTable opens the table that meta describes and loads its index, and its
// filter if asked to. The caller closes it with t.close.
func (t *tree) openTable(meta *manifest.Table, withFilter bool) (*table, error) {
	file := t.files.Add(t.path(base.TableName(meta.Num)))
	beside := t.newSidecar(meta, meta.Sidecar)
	opts := t.reading()
	opts.Sidecar = beside.forReader()
	opts.Num, opts.Size, opts.Checksum, opts.Seq = meta.Num, meta.Size, meta.Checksum, meta.MaxSeq
	opts.NoFilter = opts.NoFilter || !withFilter
	reader, err := sstable.Open(file, opts)
	if err != nil {
		file.Close()
		beside.close()
		return nil, fmt.Errorf("shale: open table %d: %w", uint64(meta.Num), err)
	}
	opened := &table{meta: meta, reader: reader, file: file, opened: beside}
	if beside != nil {
		opened.besideBits.Store(&beside.meta.FilterBits)
	}
	return opened, nil
}

// openTables opens tables in parallel: what takes the time is reading filters
// and indexes.
func (t *tree) openTables(metas []*manifest.Table, withFilters bool) ([]*table, error) {
	const workers = 8
	tables := make([]*table, len(metas))
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range min(workers, len(metas)) {
		wg.Go(func() {
			for i := w; i < len(metas) && errs[w] == nil; i += workers {
				tables[i], errs[w] = t.openTable(metas[i], withFilters)
				errs[w] = base.MissingIsDamage(errs[w], base.TableName(metas[i].Num))
			}
		})
	}
	wg.Wait()
	return tables, errors.Join(errs...)
}

// close closes the file of a table that did not get into a version.
func (t *table) close() { t.file.Close() }

// retire ends the use of a table that no version has.
func (t *table) retire() {
	t.file.Close()
	t.reader.Retire()
}

// predictedFPR is the chance that a lookup of an absent key in the table's
// range reads a block. It is worked out once for a filter: a sum of
// microseconds, which Metrics would pay for each of thousands of tables.
func (t *table) predictedFPR() float64 {
	f := t.filter()
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
