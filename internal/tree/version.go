package tree

import (
	"iter"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
)

// A Version is one state of the tables. It counts the users
// that need its files. The exported fields do not change.
type Version struct {
	Meta *manifest.Version
	Runs []*Run // newest data first: level 0, newest run first, then the deeper levels
	// Sidecars are the sidecars of tables, by the numbers of the tables.
	Sidecars map[base.FileNum]*Sidecar
	// refs counts the references. It starts at 1, for being the current version.
	// When it falls to 0, the tables that no other version has become obsolete.
	refs atomic.Int64
}

// newVersion returns the first version: meta with the open tables and sidecars
// given. tables must have all tables of meta. nextVersion makes all later versions.
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

// Tables returns an iterator over the tables of all runs, newest run first.
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

// SidecarOf returns the sidecar of t in v in the
// form that sstable takes, or nil if t has none.
func (v *Version) SidecarOf(t *Table) *sstable.Sidecar {
	if s := v.Sidecars[t.Meta.Num]; s != nil {
		return s.File
	}
	return nil
}

// Held reports whether v has references besides the one for being the current version.
func (v *Version) Held() bool { return v.refs.Load() > 1 }

// refLocked adds v's references to its runs and sidecars, and the references of runs
// that are in their first version to their tables. Requires: the tree's mu is held.
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

// Acquire takes a reference and reports whether it did. It does not if
// the count is 0 already, because the files are then being removed.
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
