package tree

import (
	"errors"
	"io/fs"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A Sidecar is a file next to a table that holds the table's filter. The
// table's reader has the filter itself. The file is needed for checkpoints
// and the next Open, which know it by its name, and Verify reads it.
type Sidecar struct {
	// Constant.
	Meta *manifest.Sidecar
	File *sstable.Sidecar
	src  *filecache.File

	// pinned is the error with which a read-only handle could not open src,
	// or nil. A read-only handle opens the file early: see NewSidecar.
	pinned error

	born uint64 // number of the first version with the sidecar; guarded by the tree's mu
}

// NewSidecar returns the sidecar of a table that meta describes,
// or nil if meta is nil. It does not read the filter.
func (t *Tree) NewSidecar(table *manifest.Table, meta *manifest.Sidecar) *Sidecar {
	if meta == nil {
		return nil
	}
	src := t.env.Files.Add(t.path(base.FilterName(meta.Num)))
	var pinned error
	if t.env.ReadOnly {
		_, pinned = src.ReadAt(make([]byte, 1), 0) // opens it: an open file stays readable
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

// SidecarOf returns the sidecar of table in v in the form that
// sstable takes, or nil if it has none. Requires: the caller holds v.
func (t *Tree) SidecarOf(v *Version, table *Table) *sstable.Sidecar {
	now, there := v.Meta.Current(table.Meta)
	if !there || now.Table.Sidecar == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sidecars[now.Table.Sidecar.Num].forReader()
}

// forReader returns s in the form that sstable takes, or nil if s is nil.
func (s *Sidecar) forReader() *sstable.Sidecar {
	if s == nil {
		return nil
	}
	return s.File
}

// missing reports whether a read-only handle did not find the file.
func (s *Sidecar) missing() bool { return s != nil && errors.Is(s.pinned, fs.ErrNotExist) }

// Close ends the use of the file for good. It does nothing if s is nil.
func (s *Sidecar) Close() {
	if s != nil {
		s.src.Close()
	}
}

// UseSidecar makes l, the filter in s, the one that lookups ask. Lookups in progress
// may still ask the one before. Counts that belong to the old filter begin at 0 again.
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

// storedBits returns how many bits a key the filter in use was made with.
func (t *Table) storedBits() float64 {
	if bits := t.besideBits.Load(); bits != nil && t.Reader.Sidecar() != nil {
		return *bits
	}
	return t.Meta.FilterBits
}
