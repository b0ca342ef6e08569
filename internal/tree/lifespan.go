package tree

import (
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/manifest"
)

// A table is in all versions from the one that brings it to the one before it leaves, and so is a
// sidecar. Its file goes when no version of that span is in use any more. To find that out, nothing
// is counted for each table: an install would have to visit all tables of a run that changes. Each
// file has the number of its first version (born), and one that has left is a zombie, with the number
// of its last version, until it goes.

// A zombie is a file that is not in the current version any more: a table or a sidecar.
type zombie struct {
	table   *Table   // or nil
	sidecar *Sidecar // or nil
	last    uint64   // number of the last version that has it
}

// born returns the number of the first version that has the file.
func (z zombie) born() uint64 {
	if z.table != nil {
		return z.table.born
	}
	return z.sidecar.born
}

// appendLocked makes next, whose tables and sidecars are those of the current version but for
// the change, the newest version in use. Requires: mu is held.
func (t *Tree) appendLocked(next *Version, opened []*Table, beside []*Sidecar, removed []removedFile) {
	last := t.newest
	t.newest++
	next.num = t.newest
	t.inUse = append(t.inUse, next.num)
	for _, d := range removed {
		if d.table != nil {
			t.zombies = append(t.zombies, zombie{table: d.table, last: last})
		}
		if s := t.sidecars[d.sidecar]; s != nil {
			t.zombies = append(t.zombies, zombie{sidecar: s, last: last})
		}
	}
	for _, table := range opened {
		table.born = next.num
		t.tables[table.Meta.Num] = table
	}
	for _, s := range beside {
		s.born = next.num
		t.sidecars[s.Meta.Num] = s
	}
}

// retire takes v, which has no references any more, out of the versions in use, and notes the files
// that nothing needs now as obsolete. It looks at all zombies.
func (t *Tree) retire(v *Version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.num == t.newest { // the store is closed: all files leave
		for table := range v.Tables() {
			t.zombies = append(t.zombies, zombie{table: table, last: v.num})
		}
		for meta := range v.Sidecars() {
			t.zombies = append(t.zombies, zombie{sidecar: t.sidecars[meta.Num], last: v.num})
		}
	}
	t.inUse = slices.DeleteFunc(t.inUse, func(num uint64) bool { return num == v.num })
	t.zombies = slices.DeleteFunc(t.zombies, func(z zombie) bool {
		if at, _ := slices.BinarySearch(t.inUse, z.born()); at < len(t.inUse) && t.inUse[at] <= z.last {
			return false
		}
		t.dropLocked(z)
		return true
	})
}

// dropLocked notes a file that no version has as obsolete. Requires: mu is held.
func (t *Tree) dropLocked(z zombie) {
	if z.table != nil {
		if t.tables[z.table.Meta.Num] == z.table {
			delete(t.tables, z.table.Meta.Num) // else the file has come back: see Tree.Step
		}
		t.env.Obsolete(Obsolete{Name: base.TableName(z.table.Meta.Num), Table: z.table})
		return
	}
	if t.sidecars[z.sidecar.Meta.Num] == z.sidecar {
		delete(t.sidecars, z.sidecar.Meta.Num)
	}
	t.env.Obsolete(Obsolete{Name: base.FilterName(z.sidecar.Meta.Num), Sidecar: z.sidecar})
}

// A removedFile is a table that has left a version, or whose sidecar has.
type removedFile struct {
	table   *Table       // nil: only its sidecar has left
	sidecar base.FileNum // of the sidecar; 0: there was none
}

// removedFiles returns which tables of removed, and which of their sidecars, the next version does
// not have. added has the tables that the next version has in another place or with another sidecar.
func removedFiles(removed, added []runTable) []removedFile {
	now := make(map[base.FileNum]*manifest.Table, len(added))
	for _, t := range added {
		now[t.meta.Num] = t.meta
	}
	var all []removedFile
	for _, t := range removed {
		var d removedFile
		m := now[t.meta.Num]
		if m == nil {
			d.table = t.table
		}
		if s := t.meta.Sidecar; s != nil && (m == nil || m.Sidecar == nil || m.Sidecar.Num != s.Num) {
			d.sidecar = s.Num
		}
		if d != (removedFile{}) {
			all = append(all, d)
		}
	}
	return all
}
