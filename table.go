package shale

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// errTableGone is what a lookup without a reference gets from a table that was
// compacted away and deleted under it. It starts again with the current view.
var errTableGone = errors.New("shale: table is gone")

// A table is an open table of the store.
type table struct {
	// Constant. What stands beside the table changes: the version has that.
	meta   *manifest.Table
	reader *sstable.Reader
	file   *tableFile
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
func (db *DB) openTable(meta *manifest.Table, withFilter bool) (*table, error) {
	file := db.files.add(filepath.Join(db.dir, base.TableName(meta.Num)))
	beside := db.newSidecar(meta, meta.Sidecar)
	reader, err := sstable.Open(file, sstable.ReaderOptions{
		Sidecar:  beside.forReader(),
		Num:      meta.Num,
		StoreID:  db.storeID,
		Size:     meta.Size,
		Checksum: meta.Checksum,
		Seq:      meta.MaxSeq,
		Cache:    db.cache,
		Stats:    &db.tableStats,
		NoFilter: !withFilter || db.opts.FilterBits < 0,
		Retried: func(err error) {
			if !errors.Is(err, ErrClosed) { // the movement that wanted it says so
				db.events.emit(Event{Kind: EventBackgroundError, Reason: "read ahead", Err: err})
			}
		},
	})
	if err != nil {
		file.close()
		beside.close()
		return nil, fmt.Errorf("shale: open table %d: %w", uint64(meta.Num), err)
	}
	t := &table{meta: meta, reader: reader, file: file, opened: beside}
	if beside != nil {
		t.besideBits.Store(&beside.meta.FilterBits)
	}
	return t, nil
}

// reportFilter tells of filters of t that Open could not use.
func (db *DB) reportFilter(t *table) {
	for _, err := range []error{t.reader.SidecarErr(), t.reader.FilterErr()} {
		if err != nil && db.opts.FilterBits >= 0 {
			db.filterUnusable(t, err)
		}
	}
}
