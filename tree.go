package shale

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A tree owns the tables of a store: which there are, in which version, and what the
// manifest says of them. It gives out the numbers of files.
//
// Edits are made one at a time, by whoever holds editing: it makes an edit durable and
// then the version after it the current one, the order of invariant 6. mu guards
// pointers and counts; it is taken after editing and never held during I/O.
type tree struct {
	treeEnv

	editing sync.Mutex
	journal journal // the manifest; guarded by editing

	mu          sync.Mutex
	version     *version                  // the current one; written under editing too. nil: the store is closed
	tables      map[base.FileNum]*table   // those of all versions that somebody needs
	pending     map[base.FileNum]struct{} // tables and sidecars being written, not yet in a version
	nextFileNum base.FileNum
}

// A treeEnv is what a tree needs from the store.
type treeEnv struct {
	fs       vfs.FS
	dir      string
	readOnly bool
	files    *filecache.Cache
	reading  func() sstable.ReaderOptions // what the readers of all tables have in common
	visible  func() base.Seq              // the last sequence number that readers may see
	obsolete func(files ...obsoleteFile)  // notes files for removal
	remove   func()                       // has them removed
	failed   func(what string, err error) // reports what the store can do without
}

func newTree(env treeEnv) *tree {
	return &tree{treeEnv: env, pending: make(map[base.FileNum]struct{})}
}

func (t *tree) path(name string) string { return filepath.Join(t.dir, name) }

// newFileNum gives out a file number.
func (t *tree) newFileNum() base.FileNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nextFileNum
	t.nextFileNum++
	return n
}

// peekFileNum returns a number that no file has yet and all later ones reach.
func (t *tree) peekFileNum() base.FileNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nextFileNum
}

// skipFileNums makes all later numbers higher than n, which a file has.
func (t *tree) skipFileNums(n base.FileNum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextFileNum = max(t.nextFileNum, n+1)
}

// newPending gives out the number of a table or sidecar in the making, which no
// sweep removes.
func (t *tree) newPending() base.FileNum {
	num := t.newFileNum()
	t.mu.Lock()
	t.pending[num] = struct{}{}
	t.mu.Unlock()
	return num
}

// removePending deletes the file of a table or sidecar that was given up. It leaves
// those alone that are in a version, or that the manifest may name.
func (t *tree) removePending(num base.FileNum, name string) {
	t.mu.Lock()
	_, ours := t.pending[num]
	delete(t.pending, num)
	t.mu.Unlock()
	if ours {
		_ = t.fs.Remove(t.path(name)) // if it fails, the next Open sweeps it
	}
}

// open makes v, with these tables, the first version.
func (t *tree) open(v *version, tables map[base.FileNum]*table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tables, t.version = tables, v
	v.refLocked()
}

// close forgets the current version: a closed DB that is still referenced must not
// keep its tables alive. The caller releases the version.
func (t *tree) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = nil
}

// An install is a change of the tables.
type install struct {
	edit     *manifest.Edit
	opened   []*table   // the tables that the edit adds
	sidecars []*sidecar // and the filters beside tables
	epoch    uint64     // of the filters, for what is known of their sums
	// publish makes the version after the edit visible. It is called under mu, once the
	// edit is durable.
	publish func(next *version)
}

// install makes an edit durable and then visible. The caller releases the version
// before, which it returns. Requires: editing is held.
func (t *tree) install(in install) (old *version, err error) {
	old = t.version // written under editing too
	meta, err := old.meta.Apply(in.edit)
	if err != nil {
		return nil, fmt.Errorf("shale: apply version edit: %w", err)
	}
	if err := t.append(in.edit, meta, true); err != nil {
		t.keepDoubtful(in.opened, in.sidecars)
		return nil, err
	}
	next := nextVersion(old, meta, t.added(in.edit, in.opened), in.sidecars, in.epoch)
	t.mu.Lock()
	defer t.mu.Unlock()
	next.refLocked()
	for _, table := range in.opened {
		t.tables[table.meta.Num] = table
		delete(t.pending, table.meta.Num)
	}
	for _, s := range in.sidecars {
		delete(t.pending, s.meta.Num)
	}
	t.version = next
	in.publish(next)
	return old, nil
}

// added returns the tables that are new in their runs: those opened, and those that the
// edit moves.
func (t *tree) added(edit *manifest.Edit, opened []*table) map[base.FileNum]*table {
	t.mu.Lock()
	defer t.mu.Unlock()
	added := make(map[base.FileNum]*table, len(edit.Added))
	for _, a := range edit.Added {
		if table := t.tables[a.Table.Num]; table != nil {
			added[a.Table.Num] = table
		}
	}
	for _, table := range opened {
		added[table.meta.Num] = table
	}
	return added
}

// tablesOf returns the open tables that metas describe. Requires: they are in a version
// that the caller holds, or reserved by its plan.
func (t *tree) tablesOf(metas []*manifest.Table) []*table {
	t.mu.Lock()
	defer t.mu.Unlock()
	tables := make([]*table, len(metas))
	for i, meta := range metas {
		tables[i] = t.tables[meta.Num]
	}
	return tables
}

// release gives back a reference on v. The last one lets tables go that no other version
// has.
func (t *tree) release(v *version) {
	if v.refs.Add(-1) != 0 {
		return
	}
	t.mu.Lock()
	t.releaseTablesLocked(v)
	for _, s := range v.sidecars {
		t.unrefSidecarLocked(s)
	}
	t.mu.Unlock()
	t.remove()
}

// releaseTablesLocked undoes what refLocked did for tables. Requires: mu is held.
func (t *tree) releaseTablesLocked(v *version) {
	for _, r := range v.runs {
		if r.refs--; r.refs > 0 {
			continue
		}
		for _, table := range r.tables {
			t.unrefTableLocked(table)
		}
	}
}

// unrefTableLocked lets a run go of a table. Requires: mu is held.
func (t *tree) unrefTableLocked(table *table) {
	table.refs--
	if table.refs == 0 {
		delete(t.tables, table.meta.Num)
		t.obsolete(obsoleteFile{name: base.TableName(table.meta.Num), table: table})
	}
}

// unrefSidecarLocked lets a version go of s. Requires: mu is held.
func (t *tree) unrefSidecarLocked(s *sidecar) {
	s.refs--
	if s.refs == 0 {
		t.obsolete(obsoleteFile{name: base.FilterName(s.meta.Num), side: s})
	}
}

// needs says whether the tree needs file num, which is a table, a sidecar or a manifest.
func (t *tree) needs(kind base.FileType, num base.FileNum) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case base.FileTable:
		return t.tables[num] != nil
	case base.FileFilter:
		for _, s := range t.version.sidecars {
			if s.meta.Num == num {
				return true
			}
		}
	case base.FileManifest:
		// A later one is there if beginning it failed, and then CURRENT may
		// name it all the same.
		return num >= t.journal.num
	}
	return false
}
