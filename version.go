package shale

import (
	"iter"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A version is one state of the tables, counted by those who need its files.
type version struct {
	meta *manifest.Version
	runs []*run // newest to oldest: level 0, newest run first, then the deeper levels
	// sidecars are the filters beside tables, by the numbers of the tables.
	sidecars map[base.FileNum]*sidecar
	// refs starts at 1 for being the current version. At 0 the tables that no
	// other version has are deleted.
	refs atomic.Int64
}

// newVersion describes meta with the open tables given, which must be all. Later
// versions are nextVersion's.
func newVersion(meta *manifest.Version, tables map[base.FileNum]*table, sidecars map[base.FileNum]*sidecar) *version {
	v := &version{meta: meta, sidecars: sidecars}
	b := versionBuilder{old: &version{}, come: tables, used: make(map[*run]bool)}
	for level := range meta.Levels {
		for nth, mr := range meta.Levels[level].Runs {
			v.runs = append(v.runs, b.run(level, nth, mr))
		}
	}
	v.refs.Store(1)
	return v
}

// tables gives the tables of all runs.
func (v *version) tables() iter.Seq[*table] {
	return func(yield func(*table) bool) {
		for _, r := range v.runs {
			for _, t := range r.tables {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// sidecarOf returns what stands beside t in v, for sstable: nil if nothing does.
func (v *version) sidecarOf(t *table) *sstable.Sidecar {
	if s := v.sidecars[t.meta.Num]; s != nil {
		return s.file
	}
	return nil
}

// refLocked counts v among those that need its tables and sidecars. Requires: the mu of
// the tree is held.
func (v *version) refLocked() {
	for _, r := range v.runs {
		if r.refs == 0 {
			for _, t := range r.tables {
				t.refs++
			}
		}
		r.refs++
	}
	for _, s := range v.sidecars {
		s.refs++
	}
}

// acquire takes a reference unless the version is gone already.
func (v *version) acquire() bool {
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
