package shale

import (
	"github.com/shaledb/shale/bloom"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A sidecar is the file beside a table that holds its filter. The table's reader
// has the filter itself; the file is needed by its name for checkpoints and the
// next Open, and is read by Verify.
type sidecar struct {
	// Constant.
	meta *manifest.Sidecar
	file *sstable.Sidecar
	src  *tableFile

	// refs counts the versions that have the sidecar. Guarded by db.mu.
	refs int
}

// newSidecar describes what stands beside a table; nil: nothing does.
func (db *DB) newSidecar(table *manifest.Table, meta *manifest.Sidecar) *sidecar {
	if meta == nil {
		return nil
	}
	src := db.files.add(db.path(base.FilterName(meta.Num)))
	if db.opts.ReadOnly && db.opts.FilterBits < 0 {
		// It is not read now, and stays readable only while it is open.
		_, _ = src.ReadAt(make([]byte, 1), 0) // who reads it gets the error again
	}
	return &sidecar{meta: meta, src: src, file: sstable.NewSidecar(src, sstable.SidecarInfo{
		Num:           meta.Num,
		StoreID:       db.storeID,
		Table:         table.Num,
		TableChecksum: table.Checksum,
		Size:          meta.Size,
		Checksum:      meta.Checksum,
	})}
}

func (s *sidecar) forReader() *sstable.Sidecar {
	if s == nil {
		return nil
	}
	return s.file
}

// close ends the use of the file for good. A nil sidecar has none.
func (s *sidecar) close() {
	if s != nil {
		s.src.close()
	}
}

// useSidecar makes f, the filter in s, the one that lookups ask. Lookups under
// way ask the one before.
func (t *table) useSidecar(s *sidecar, f *bloom.Static) {
	t.reader.SetSidecar(s.file, f)
	t.prediction.Store(nil)
	t.negatives.Store(0)
	t.falsePositives.Store(0)
}
