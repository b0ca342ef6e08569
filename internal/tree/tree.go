// Package tree owns the tables of a store: which there are, where in the levels they
// stand, and how long their files are needed.
//
// A Version is one state of all tables. It is immutable, and readers use it without a
// lock. An edit leads from one version to the next; package manifest has what an edit and
// a version are on disk.
package tree

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

// A Tree owns the tables of a store: which there are, in which version, and what the
// manifest says of them. It gives out the numbers of files.
//
// Edits are made one at a time, by whoever holds editing. An edit becomes durable first,
// and then the version after it becomes the current one: that is invariant 6. mu guards
// pointers and counts; it is taken after editing and never held during I/O. All methods may
// be called concurrently.
type Tree struct {
	env Env

	editing sync.Mutex
	journal journal // the manifest; guarded by editing

	mu          sync.Mutex
	version     *Version                  // the current one; written under editing too. nil: the store is closed
	tables      map[base.FileNum]*Table   // those of all versions that somebody needs
	pending     map[base.FileNum]struct{} // tables and sidecars being written, not yet in a version
	nextFileNum base.FileNum
}

// An Env is what a Tree needs from the store.
type Env struct {
	FS       vfs.FS
	Dir      string
	ReadOnly bool
	Files    *filecache.Cache
	Reading  func() sstable.ReaderOptions // what the readers of all tables have in common
	Visible  func() base.Seq              // the last sequence number that readers may see
	Obsolete func(files ...Obsolete)      // notes files for removal
	Remove   func()                       // has them removed
	Failed   func(what string, err error) // reports what the store can do without
}

// New returns a Tree without a version. Load gives it one.
func New(env Env) *Tree {
	return &Tree{env: env, pending: make(map[base.FileNum]struct{})}
}

func (t *Tree) path(name string) string { return filepath.Join(t.env.Dir, name) }

// NewFileNum gives out a file number.
func (t *Tree) NewFileNum() base.FileNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nextFileNum
	t.nextFileNum++
	return n
}

// PeekFileNum returns a number that no file has yet and all later ones reach.
func (t *Tree) PeekFileNum() base.FileNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nextFileNum
}

// SkipFileNums makes all later numbers higher than n, which a file has.
func (t *Tree) SkipFileNums(n base.FileNum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextFileNum = max(t.nextFileNum, n+1)
}

// NewPending gives out the number of a table or sidecar in the making. It is pending until it
// is installed, or until RemovePending gives it up.
func (t *Tree) NewPending() base.FileNum {
	num := t.NewFileNum()
	t.mu.Lock()
	t.pending[num] = struct{}{}
	t.mu.Unlock()
	return num
}

// RemovePending deletes the file of a table or sidecar that was given up. It leaves
// those alone that are in a version, or that the manifest may name.
func (t *Tree) RemovePending(num base.FileNum, name string) {
	t.mu.Lock()
	_, ours := t.pending[num]
	delete(t.pending, num)
	t.mu.Unlock()
	if ours {
		_ = t.env.FS.Remove(t.path(name)) // if it fails, the next Open sweeps it
	}
}

// A Loading says what Open wants of the tables.
type Loading struct {
	NextFileNum base.FileNum
	ReadFilters bool // read the filters with the tables
	// Moving makes a sidecar that is not there an error: a writer beside a read-only
	// handle may have put another in its place.
	Moving bool
}

// Load opens the tables of meta and makes it the current version.
func (t *Tree) Load(meta *manifest.Version, how Loading) (*Version, error) {
	opened, err := t.openTables(meta, how.ReadFilters)
	if err != nil {
		return nil, err
	}
	tables := make(map[base.FileNum]*Table, len(opened))
	sidecars := make(map[base.FileNum]*Sidecar)
	for _, table := range opened {
		if how.Moving && table.opened.missing() {
			return nil, table.opened.pinned
		}
		tables[table.Meta.Num] = table
		if table.opened != nil {
			sidecars[table.Meta.Num] = table.opened
		}
	}
	v := newVersion(meta, tables, sidecars)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tables, t.version, t.nextFileNum = tables, v, how.NextFileNum
	v.refLocked()
	return v, nil
}

// Close forgets the current version: a closed DB that is still referenced must not
// keep its tables alive. The caller releases the version.
func (t *Tree) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = nil
}

// A Change is one of the tables.
type Change struct {
	Edit     *manifest.Edit
	Opened   []*Table   // the tables that the edit adds
	Sidecars []*Sidecar // and the filters beside tables
	Epoch    uint64     // of the filters, for what is known of their sums
	// Publish makes the version after the edit visible. It is called under mu, once the
	// edit is durable.
	Publish func(next *Version)
	// Installed is called after that, before the next change.
	Installed func(old, next *Version)
}

// Install makes a change durable and then visible. prepare returns it, given the current
// version: nil means that there is nothing to change. One change is made at a time.
func (t *Tree) Install(prepare func(current *manifest.Version) *Change) error {
	t.editing.Lock()
	defer t.editing.Unlock()
	old := t.version // written under editing too
	c := prepare(old.Meta)
	if c == nil {
		return nil
	}
	meta, err := old.Meta.Apply(c.Edit)
	if err != nil {
		return fmt.Errorf("shale: apply version edit: %w", err)
	}
	if err := t.append(c.Edit, meta, true); err != nil {
		t.keepDoubtful(c.Opened, c.Sidecars)
		return err
	}
	next := nextVersion(old, meta, t.added(c.Edit, c.Opened), c.Sidecars, c.Epoch)
	t.publish(c, next)
	c.Installed(old, next)
	t.Release(old)
	return nil
}

// publish makes next, which c leads to, the current version.
func (t *Tree) publish(c *Change, next *Version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next.refLocked()
	for _, table := range c.Opened {
		t.tables[table.Meta.Num] = table
		delete(t.pending, table.Meta.Num)
	}
	for _, s := range c.Sidecars {
		delete(t.pending, s.Meta.Num)
	}
	t.version = next
	c.Publish(next)
}

// added returns the tables that are new in their runs: those opened, and those that the
// edit moves.
func (t *Tree) added(edit *manifest.Edit, opened []*Table) map[base.FileNum]*Table {
	t.mu.Lock()
	defer t.mu.Unlock()
	added := make(map[base.FileNum]*Table, len(edit.Added))
	for _, a := range edit.Added {
		if table := t.tables[a.Table.Num]; table != nil {
			added[a.Table.Num] = table
		}
	}
	for _, table := range opened {
		added[table.Meta.Num] = table
	}
	return added
}

// TablesOf returns the open tables that metas describe. Requires: they are in a version
// that the caller holds, or reserved by its plan.
func (t *Tree) TablesOf(metas []*manifest.Table) []*Table {
	t.mu.Lock()
	defer t.mu.Unlock()
	tables := make([]*Table, len(metas))
	for i, meta := range metas {
		tables[i] = t.tables[meta.Num]
	}
	return tables
}

// Release gives back a reference on v. The last one lets tables go that no other version
// has.
func (t *Tree) Release(v *Version) {
	if v.refs.Add(-1) != 0 {
		return
	}
	t.mu.Lock()
	t.releaseTablesLocked(v)
	for _, s := range v.Sidecars {
		t.unrefSidecarLocked(s)
	}
	t.mu.Unlock()
	t.env.Remove()
}

// releaseTablesLocked undoes what refLocked did for tables. Requires: mu is held.
func (t *Tree) releaseTablesLocked(v *Version) {
	for _, r := range v.Runs {
		if r.refs--; r.refs > 0 {
			continue
		}
		for _, table := range r.Tables {
			t.unrefTableLocked(table)
		}
	}
}

// unrefTableLocked lets a run go of a table. Requires: mu is held.
func (t *Tree) unrefTableLocked(table *Table) {
	table.refs--
	if table.refs == 0 {
		delete(t.tables, table.Meta.Num)
		t.env.Obsolete(Obsolete{Name: base.TableName(table.Meta.Num), Table: table})
	}
}

// unrefSidecarLocked lets a version go of s. Requires: mu is held.
func (t *Tree) unrefSidecarLocked(s *Sidecar) {
	s.refs--
	if s.refs == 0 {
		t.env.Obsolete(Obsolete{Name: base.FilterName(s.Meta.Num), Sidecar: s})
	}
}

// Needs says whether the tree needs file num, which is a table, a sidecar or a manifest.
func (t *Tree) Needs(kind base.FileType, num base.FileNum) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case base.FileTable:
		return t.tables[num] != nil
	case base.FileFilter:
		for _, s := range t.version.Sidecars {
			if s.Meta.Num == num {
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
