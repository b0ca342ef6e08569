package tree

import (
	"bytes"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// nextVersion returns the version that meta describes, and which tables and
// sidecars have left. old is the version before it. added has the tables that
// are new, or new in their run.
//
// It reads only tables that were added or removed. Runs that stay the same are
// shared with old. A run that changes takes over the pointers and bounds
// of its unchanged tables from the old run. With 50,000 tables in the last
// level a flush takes 4 µs this way. To read all tables took 8 ms.
func nextVersion(old *Version, meta *manifest.Version, added map[base.FileNum]*Table) (*Version, []removedFile) {
	b := versionBuilder{old: old.Runs, tables: added}
	v := &Version{Meta: meta}
	for level := range meta.Levels {
		for nth, mr := range meta.Levels[level].Runs {
			if len(mr.Tables) > 0 {
				v.Runs = append(v.Runs, b.run(level, nth, mr))
			}
		}
	}
	b.skipTo(len(meta.Levels), 0)
	v.refs.Store(1)
	return v, removedFiles(b.removed, b.added)
}

// A versionBuilder makes the runs of the version after old.
type versionBuilder struct {
	old    []*Run                  // the runs of old that were not reached yet
	tables map[base.FileNum]*Table // those that are new, or new in their run

	removed []runTable // tables that left their run of old, or have another sidecar in it
	added   []runTable // tables that are new in their run, or have another sidecar in it
}

// A runTable is a table in a run, and the manifest's description of it there.
type runTable struct {
	meta  *manifest.Table
	table *Table
}

// run returns the run that mr describes, which is the nth of its level. It shares
// the old run if nothing has changed. Otherwise it derives the number of keys
// from that of the old run and the tables that were removed or added.
func (b *versionBuilder) run(level, nth int, mr manifest.Run) *Run {
	old := b.skipTo(level, mr.ID)
	n := len(mr.Tables)
	if old.Nth == nth && len(old.metas) == n && &old.metas[0] == &mr.Tables[0] {
		return old
	}
	r := layout(level, nth, mr.Tables[0].Smallest, mr.Tables[n-1].Largest, n)
	r.id, r.metas = mr.ID, mr.Tables
	removed, added := len(b.removed), len(b.added)
	b.fill(r, old)
	r.Keys = old.Keys
	for _, t := range b.removed[removed:] {
		r.Keys -= t.table.Meta.Keys
	}
	for _, t := range b.added[added:] {
		r.Keys += t.table.Meta.Keys
	}
	return r
}

// skipTo returns the run of old in a level with an id, or an empty one. The tables of the runs
// before it have left. Both versions have their runs in the order of levels and, in a level,
// of descending ids. So all calls together walk through the runs of old once.
func (b *versionBuilder) skipTo(level int, id uint64) *Run {
	for len(b.old) > 0 {
		r := b.old[0]
		if r.Level > level || r.Level == level && r.id < id {
			break
		}
		b.old = b.old[1:]
		if r.Level == level && r.id == id {
			return r
		}
		for i := range r.Tables {
			b.remove(r, i)
		}
	}
	return new(Run)
}

// fill places the tables of r. It takes those that stay from old, which may be
// empty, and the others from b.tables. It walks through both lists of tables at the
// same time, because both are in the order of keys. It adds to b.removed and b.added.
func (b *versionBuilder) fill(r, old *Run) {
	sameHeads := bytes.Equal(r.bounds.Prefix, old.bounds.Prefix)
	j := 0
	for i, m := range r.metas {
		for ; j < len(old.metas) && old.metas[j] != m && old.metas[j].Num != m.Num && bytes.Compare(old.metas[j].Largest, m.Smallest) < 0; j++ {
			b.remove(old, j)
		}
		switch {
		case j < len(old.metas) && old.metas[j] == m: // nothing of the table is read
			r.Tables[i] = old.Tables[j]
			if sameHeads {
				r.bounds.Largest[i], r.bounds.Smallest[i] = old.bounds.Largest[j], old.bounds.Smallest[j]
			} else {
				r.put(i, old.Tables[j])
			}
			j++
		case j < len(old.metas) && old.metas[j].Num == m.Num: // the same table with another sidecar
			r.put(i, old.Tables[j])
			b.remove(old, j)
			b.added = append(b.added, runTable{m, old.Tables[j]})
			j++
		default:
			r.put(i, b.tables[m.Num])
			b.added = append(b.added, runTable{m, b.tables[m.Num]})
		}
	}
	for ; j < len(old.metas); j++ {
		b.remove(old, j)
	}
}

// remove notes that table i was removed from old.
func (b *versionBuilder) remove(old *Run, i int) {
	b.removed = append(b.removed, runTable{old.metas[i], old.Tables[i]})
}
