package tree

import (
	"iter"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A Version is one state of the tables, counted by those who need its files. What is
// exported is constant.
type Version struct {
	Meta *manifest.Version
	Runs []*Run // from newest to oldest: level 0, newest run first, then the deeper levels
	// Sidecars are the filters beside tables, by the numbers of the tables.
	Sidecars map[base.FileNum]*Sidecar
	// refs starts at 1 for being the current version. At 0 the tables that no
	// other version has are deleted.
	refs atomic.Int64
}

// newVersion describes meta with the open tables given, which must be all. Later
// versions are nextVersion's.
func newVersion(meta *manifest.Version, tables map[base.FileNum]*Table, sidecars map[base.FileNum]*Sidecar) *Version {
	v := &Version{Meta: meta, Sidecars: sidecars}
	b := versionBuilder{old: &Version{}, come: tables, used: make(map[*Run]bool)}
	for level := range meta.Levels {
		for nth, mr := range meta.Levels[level].Runs {
			v.Runs = append(v.Runs, b.run(level, nth, mr))
		}
	}
	v.refs.Store(1)
	return v
}

// Tables gives the tables of all runs.
func (v *Version) Tables() iter.Seq[*Table] {
	return func(yield func(*Table) bool) {
		for _, r := range v.Runs {
			for _, t := range r.Tables {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// SidecarOf returns what stands beside t in v, for sstable: nil if nothing does.
func (v *Version) SidecarOf(t *Table) *sstable.Sidecar {
	if s := v.Sidecars[t.Meta.Num]; s != nil {
		return s.File
	}
	return nil
}

// Held says whether anybody needs the files of v but as those of the current version.
func (v *Version) Held() bool { return v.refs.Load() > 1 }

// refLocked counts v among those that need its tables and sidecars. Requires: the mu of
// the tree is held.
func (v *Version) refLocked() {
	for _, r := range v.Runs {
		if r.refs == 0 {
			for _, t := range r.Tables {
				t.refs++
			}
		}
		r.refs++
	}
	for _, s := range v.Sidecars {
		s.refs++
	}
}

// Acquire takes a reference unless the version is gone already.
func (v *Version) Acquire() bool {
	for {
		n := v.refs.Load()
		if n == 0 {
			return false
		}
		if v.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}
