package shale

import (
	"errors"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
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
	src  *filecache.File

	// pinned is why src could not be opened by a read-only handle, nil if it could.
	pinned error

	// refs counts the versions that have the sidecar. Guarded by the mu of the tree.
	refs int
}

// newSidecar describes what stands beside a table; nil: nothing does.
func (t *tree) newSidecar(table *manifest.Table, meta *manifest.Sidecar) *sidecar {
	if meta == nil {
		return nil
	}
	src := t.files.Add(t.path(base.FilterName(meta.Num)))
	var pinned error
	if t.readOnly {
		_, pinned = src.ReadAt(make([]byte, 1), 0) // it stays readable only while it is open
	}
	return &sidecar{meta: meta, src: src, pinned: pinned, file: sstable.NewSidecar(src, sstable.SidecarInfo{
		Num:           meta.Num,
		StoreID:       t.reading().StoreID,
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

// missing tells whether a read-only handle did not find the file.
func (s *sidecar) missing() bool { return s != nil && errors.Is(s.pinned, fs.ErrNotExist) }

// close ends the use of the file for good. A nil sidecar has none.
func (s *sidecar) close() {
	if s != nil {
		s.src.Close()
	}
}

// useSidecar makes l, the filter in s, the one that lookups ask. Lookups under
// way ask the one before.
func (t *table) useSidecar(s *sidecar, l *sstable.LoadedFilter) {
	bits := s.meta.FilterBits
	t.besideBits.Store(&bits)
	t.reader.SetSidecar(s.file, l)
	t.filterLost.Store(false)
	t.worse.Store(false)
	t.prediction.Store(nil)
	t.negatives.Store(0)
	t.falsePositives.Store(0)
}

// storedBits returns the bits a key that were asked for of the filter in use.
func (t *table) storedBits() float64 {
	if bits := t.besideBits.Load(); bits != nil && t.reader.Sidecar() != nil {
		return *bits
	}
	return t.meta.FilterBits
}
