package tree

import (
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A table is in all versions from the one that brings it to the one before it leaves, and so is a
// sidecar. Its file goes when no version of that span is in use any more. To find that out, nothing
// is counted for each table. That would mean to visit all tables of a run for each change of the run:
// 14 ms with 50,000 tables. Only files that leave are looked at:
//
//   - Each file has the number of its first version (born).
//   - The versions in use are a list, oldest first. A file that leaves is noted at the last version
//     that has it, which is then the newest of its span.
//   - When that version is released, the file is noted at the version before it in the list, if that
//     one has the file, too. Otherwise nothing needs the file.
//
// File systems do the same with the blocks of snapshots: these are the dead lists of ZFS.

// A leaver is a file that is not in the current version any more: a table or a sidecar.
type leaver struct {
	table   *Table   // or nil
	sidecar *Sidecar // or nil
}

// born returns the number of the first version that has the file.
func (l leaver) born() uint64 {
	if l.table != nil {
		return l.table.born
	}
	return l.sidecar.born
}

// appendLocked makes next, whose tables and sidecars are those of the current version but for
// the change, the newest version of the list. Requires: mu is held.
func (t *Tree) appendLocked(next *Version, opened []*Table, beside []*Sidecar, left []departure) {
	if old := t.newest; old != nil {
		next.num = old.num + 1
		next.older, old.newer = old, next
		old.replaced = true
		for _, d := range left {
			if d.table != nil {
				old.leavers = append(old.leavers, leaver{table: d.table})
			}
			if s := t.sidecars[d.sidecar]; s != nil {
				old.leavers = append(old.leavers, leaver{sidecar: s})
			}
		}
	}
	t.newest = next
	for _, table := range opened {
		table.born = next.num
		t.tables[table.Meta.Num] = table
	}
	for _, s := range beside {
		s.born = next.num
		t.sidecars[s.Meta.Num] = s
	}
}

// retire takes v, which has no references any more, out of the list, and notes the files that
// nothing needs now as obsolete. It takes time in proportion to the files that have left v.
func (t *Tree) retire(v *Version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !v.replaced { // the store is closed: all files leave
		for table := range v.Tables() {
			v.leavers = append(v.leavers, leaver{table: table})
		}
		for meta := range v.Sidecars() {
			v.leavers = append(v.leavers, leaver{sidecar: t.sidecars[meta.Num]})
		}
	}
	for _, l := range v.leavers {
		if v.older != nil && l.born() <= v.older.num {
			v.older.leavers = append(v.older.leavers, l)
		} else {
			t.dropLocked(l)
		}
	}
	if v.older != nil {
		v.older.newer = v.newer
	}
	if v.newer != nil {
		v.newer.older = v.older
	} else {
		t.newest = v.older
	}
	v.older, v.newer, v.leavers = nil, nil, nil
}

// dropLocked notes a file that no version has as obsolete. Requires: mu is held.
func (t *Tree) dropLocked(l leaver) {
	if l.table != nil {
		if t.tables[l.table.Meta.Num] == l.table {
			delete(t.tables, l.table.Meta.Num) // else the file has come back: see Tree.Step
		}
		t.env.Obsolete(Obsolete{Name: base.TableName(l.table.Meta.Num), Table: l.table})
		return
	}
	if t.sidecars[l.sidecar.Meta.Num] == l.sidecar {
		delete(t.sidecars, l.sidecar.Meta.Num)
	}
	t.env.Obsolete(Obsolete{Name: base.FilterName(l.sidecar.Meta.Num), Sidecar: l.sidecar})
}

// A departure is a table that has left a version, or whose sidecar has.
type departure struct {
	table   *Table       // nil: only its sidecar has left
	sidecar base.FileNum // of the sidecar; 0: there was none
}

// departures returns which tables of left, and which of their sidecars, the next version does not
// have. anew has the tables that the next version has in another place or with another sidecar.
func departures(left, anew []placed) []departure {
	now := make(map[base.FileNum]*manifest.Table, len(anew))
	for _, p := range anew {
		now[p.meta.Num] = p.meta
	}
	var all []departure
	for _, p := range left {
		var d departure
		m := now[p.meta.Num]
		if m == nil {
			d.table = p.table
		}
		if s := p.meta.Sidecar; s != nil && (m == nil || m.Sidecar == nil || m.Sidecar.Num != s.Num) {
			d.sidecar = s.Num
		}
		if d != (departure{}) {
			all = append(all, d)
		}
	}
	return all
}
