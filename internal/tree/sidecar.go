package tree

import (
	"errors"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A Sidecar is the file beside a table that holds its filter. The table's reader
// has the filter itself; the file is needed by its name for checkpoints and the
// next Open, and is read by Verify.
type Sidecar struct {
	// Constant.
	Meta *manifest.Sidecar
	File *sstable.Sidecar
	src  *filecache.File

	// pinned is why src could not be opened by a read-only handle, nil if it could.
	pinned error

	// refs counts the versions that have the sidecar. Guarded by the mu of the tree.
	refs int
}

// NewSidecar describes what stands beside a table; nil: nothing does.
func (t *Tree) NewSidecar(table *manifest.Table, meta *manifest.Sidecar) *Sidecar {
	if meta == nil {
		return nil
	}
	src := t.env.Files.Add(t.path(base.FilterName(meta.Num)))
	var pinned error
	if t.env.ReadOnly {
		_, pinned = src.ReadAt(make([]byte, 1), 0) // it stays readable only while it is open
	}
	return &Sidecar{Meta: meta, src: src, pinned: pinned, File: sstable.NewSidecar(src, sstable.SidecarInfo{
		Num:           meta.Num,
		StoreID:       t.env.Reading().StoreID,
		Table:         table.Num,
		TableChecksum: table.Checksum,
		Size:          meta.Size,
		Checksum:      meta.Checksum,
	})}
}

func (s *Sidecar) forReader() *sstable.Sidecar {
	if s == nil {
		return nil
	}
	return s.File
}

// missing tells whether a read-only handle did not find the file.
func (s *Sidecar) missing() bool { return s != nil && errors.Is(s.pinned, fs.ErrNotExist) }

// Close ends the use of the file for good. A nil sidecar has none.
func (s *Sidecar) Close() {
	if s != nil {
		s.src.Close()
	}
}

// UseSidecar makes l, the filter in s, the one that lookups ask. Lookups under
// way ask the one before.
func (t *Table) UseSidecar(s *Sidecar, l *sstable.LoadedFilter) {
	bits := s.Meta.FilterBits
	t.besideBits.Store(&bits)
	t.Reader.SetSidecar(s.File, l)
	t.FilterLost.Store(false)
	t.Worse.Store(false)
	t.prediction.Store(nil)
	t.Negatives.Store(0)
	t.FalsePositives.Store(0)
}

// storedBits returns the bits a key that were asked for of the filter in use.
func (t *Table) storedBits() float64 {
	if bits := t.besideBits.Load(); bits != nil && t.Reader.Sidecar() != nil {
		return *bits
	}
	return t.Meta.FilterBits
}
