package tree

import (
	"iter"
	"sync/atomic"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A Version is one state of the tables. It counts the users
// that need its files. The exported fields do not change.
type Version struct {
	Meta *manifest.Version
	Runs []*Run // newest data first: level 0, newest run first, then the deeper levels
	// refs counts the references. It starts at 1, for being the current version.
	// When it falls to 0, the tables that no other version has become obsolete.
	refs atomic.Int64

	estimates atomic.Pointer[Estimates] // nil until they are asked for

	num uint64 // each version has a higher number than the one before it; guarded by the tree's mu
}

// newVersion returns the first version: meta with the open tables given.
// tables must have all tables of meta. nextVersion makes all later versions.
func newVersion(meta *manifest.Version, tables map[base.FileNum]*Table) *Version {
	v := &Version{Meta: meta}
	b := versionBuilder{tables: tables}
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

// Sidecars returns an iterator over the descriptions of all sidecars.
func (v *Version) Sidecars() iter.Seq[*manifest.Sidecar] {
	return func(yield func(*manifest.Sidecar) bool) {
		for t := range v.Meta.Tables() {
			if t.Sidecar != nil && !yield(t.Sidecar) {
				return
			}
		}
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
