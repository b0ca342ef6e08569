// Package tree owns the tables of a store: which tables there are,
// where they stand in the levels, and how long their files are needed.
//
// A Version is one state of all tables. It does not change, and readers
// use it without a lock. An edit leads from one version to the next.
// Package manifest describes edits and versions as they are on disk.
package tree

import (
	"fmt"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/filecache"
	"github.com/shaledb/shale/internal/lockorder"
	"github.com/shaledb/shale/manifest"
	"github.com/shaledb/shale/sstable"
	"github.com/shaledb/shale/vfs"
)

// A Tree owns the tables of a store, its versions and
// its manifest. It also gives out the numbers of files.
//
// Edits are made one at a time, under the lock editing. An edit is made durable
// first, and then the version after it becomes the current one: that is invariant
// 6. In the other order, a reader could see a version that is gone after a crash.
//
// mu guards pointers and counts. It is taken after editing and is
// never held during I/O. All methods may be called concurrently.
type Tree struct {
	env Env

	editing lockorder.Mutex[lockorder.Editing]
	journal journal // the manifest; guarded by editing

	rules sstable.RulesInUse // of the filters of all tables; has a lock of its own

	mu          lockorder.Mutex[lockorder.Tree]
	version     *Version                  // the current one; written under editing and mu; nil: the store is closed
	newest      uint64                    // number of the newest version
	inUse       []uint64                  // numbers of the versions in use, ascending
	zombies     []zombie                  // files that versions in use may have, and the current one has not
	tables      map[base.FileNum]*Table   // tables of all versions that are in use
	sidecars    map[base.FileNum]*Sidecar // sidecars of all versions that are in use
	pending     map[base.FileNum]struct{} // tables and sidecars being written, not in a version yet
	nextFileNum base.FileNum
}

// An Env is what a Tree needs from the store.
type Env struct {
	FS       vfs.FS
	Dir      string
	ReadOnly bool
	Files    *filecache.Cache
	Reading  func() sstable.ReaderOptions // options for the readers of all tables
	Visible  func() base.Seq              // the last sequence number that readers may see
	Obsolete func(files ...Obsolete)      // notes files that nothing needs any more; called under mu, too
	Remove   func()                       // has the files removed that Obsolete has noted
	Failed   func(what string, err error) // reports an error that the store can continue after
}

// New returns a Tree without a version. Load gives it the first one.
func New(env Env) *Tree {
	return &Tree{env: env, pending: make(map[base.FileNum]struct{})}
}

// path returns the path of a file of the store.
func (t *Tree) path(name string) string { return filepath.Join(t.env.Dir, name) }

// PrefixRules returns the rules by which filters in memory know prefixes. It
// takes no lock. The caller must not change the result.
func (t *Tree) PrefixRules() []base.PrefixRule { return t.rules.All() }

// NewFileNum returns the next file number. No number is given out twice.
func (t *Tree) NewFileNum() base.FileNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nextFileNum
	t.nextFileNum++
	return n
}

// PeekFileNum returns the next file number and does not give it out. It is
// above the number of every file, and no number given out later is below it.
func (t *Tree) PeekFileNum() base.FileNum {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nextFileNum
}

// SkipFileNums makes all later numbers higher than n, because a file with number n exists.
func (t *Tree) SkipFileNums(n base.FileNum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextFileNum = max(t.nextFileNum, n+1)
}

// NewPending returns a file number for a table or sidecar that
// is about to be written. The number is pending until the file
// is installed in a version, or until RemovePending gives it up.
func (t *Tree) NewPending() base.FileNum {
	num := t.NewFileNum()
	t.mu.Lock()
	t.pending[num] = struct{}{}
	t.mu.Unlock()
	return num
}

// RemovePending deletes the file of a table or sidecar that was given up. It
// does nothing if the file is in a version, or if the manifest may name it.
func (t *Tree) RemovePending(num base.FileNum, name string) {
	t.mu.Lock()
	_, ours := t.pending[num]
	delete(t.pending, num)
	t.mu.Unlock()
	if ours {
		_ = t.env.FS.Remove(t.path(name)) // if this fails, the next Open removes the file
	}
}

// Close forgets the current version: a closed DB that is still referenced must not keep its
// tables in memory. The caller releases the reference that the version had for being current.
func (t *Tree) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version = nil
}

// A Change takes the tree from one version to the next. One is made at a time:
//
//  1. Begin waits for the end of the one before.
//  2. Log makes the edit durable, and Next the current version. If that fails, Old stays it. A
//     handle that is read-only has nothing to make durable, and calls Take.
//  3. The caller shows Next to readers.
//  4. End gives up the reference that Old had for being current, and lets the next change begin.
//     Tables that no version needs any more are removed.
type Change struct {
	Old, Next *Version // Next is nil before Log and Take, and if they fail

	tree  *Tree
	ended bool
}

// Begin begins a change, which the caller must end.
func (t *Tree) Begin() *Change {
	t.editing.Lock()
	return &Change{tree: t, Old: t.version} // mu is not needed: version is written under editing too
}

// Log appends the edit to the manifest, syncs that, and makes the version after it. opened and
// sidecars are those that the edit adds. If it fails, their files are kept: the manifest may name
// them.
func (c *Change) Log(edit *manifest.Edit, opened []*Table, sidecars []*Sidecar) error {
	t := c.tree
	edit.Rebase(c.Old.Meta) // filters may have come for tables that it moves
	meta, err := c.Old.Meta.Apply(edit)
	if err != nil {
		return fmt.Errorf("shale: apply version edit: %w", err)
	}
	appended := false
	defer func() {
		if !appended { // also if the file system has panicked
			t.keepDoubtful(opened, sidecars)
		}
	}()
	if err := t.append(edit, meta, true); err != nil {
		return err
	}
	appended = true
	next, removed := nextVersion(c.Old, meta, t.added(edit, opened))
	c.add(next, removed, opened, sidecars)
	return nil
}

// add makes next the current version, and takes the new files out of pending. removed is what the
// version before it has, and next has not. That version has a reference until End, so nothing that
// has left is removed before.
func (c *Change) add(next *Version, removed []removedFile, opened []*Table, sidecars []*Sidecar) {
	t := c.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	t.appendLocked(next, opened, sidecars, removed)
	for _, table := range opened {
		delete(t.pending, table.Meta.Num)
	}
	for _, s := range sidecars {
		delete(t.pending, s.Meta.Num)
	}
	t.version, c.Next = next, next
}

// End ends the change. It does nothing if the change has ended. Requires: the caller does not hold mu.
func (c *Change) End() {
	if c.ended {
		return
	}
	c.ended = true
	c.tree.editing.Unlock()
	if c.Next != nil {
		c.tree.Release(c.Old)
	}
}

// added returns the tables that are new in their runs: those
// in opened, and those that the edit moves from another run.
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

// TablesOf returns the open tables that metas describe. Requires: a version
// that the caller holds contains them, or the caller's plan has reserved them.
func (t *Tree) TablesOf(metas []*manifest.Table) []*Table {
	t.mu.Lock()
	defer t.mu.Unlock()
	tables := make([]*Table, len(metas))
	for i, meta := range metas {
		tables[i] = t.tables[meta.Num]
	}
	return tables
}

// Release gives back a reference on v. With the last reference, the tables and sidecars
// that are in no other version become obsolete and are removed. That is the work of
// whoever removes files (Env.Remove), so a reader that is the last to need a version does
// not wait for it. Requires: the caller does not hold mu.
func (t *Tree) Release(v *Version) {
	if v.refs.Add(-1) != 0 {
		return
	}
	t.env.Obsolete(Obsolete{version: v})
	t.env.Remove()
}

// Reopen makes the next read of a table open its file again, which lies elsewhere now. It does nothing if no version
// has the table. Requires: the caller does not hold mu.
func (t *Tree) Reopen(num base.FileNum) {
	t.mu.Lock()
	table := t.tables[num]
	t.mu.Unlock()
	if table != nil {
		table.file.Reopen()
	}
}

// Sought returns how many blocks of a table were read because somebody went to a place in it: see sstable.Reader.Sought.
// It returns 0 if no version has the table. Requires: the caller does not hold mu.
func (t *Tree) Sought(num base.FileNum) uint32 {
	t.mu.Lock()
	table := t.tables[num]
	t.mu.Unlock()
	if table == nil {
		return 0
	}
	return table.Reader.Sought()
}

// Retire does what Release leaves to whoever removes files: if o
// is a version, it notes the files that nothing needs any more as
// obsolete, and returns true. Requires: the caller does not hold mu.
func (t *Tree) Retire(o Obsolete) (done bool) {
	if o.version != nil {
		t.retire(o.version)
	}
	return o.version != nil
}

// Needs reports whether the tree needs the file with this number. kind is a table,
// a sidecar or a manifest. Requires: Load has returned, and Close was not called.
func (t *Tree) Needs(kind base.FileType, num base.FileNum) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case base.FileTable:
		return t.tables[num] != nil
	case base.FileFilter:
		return t.sidecars[num] != nil
	case base.FileManifest:
		// If the creation of a new manifest has failed, a manifest with a
		// higher number may exist, and CURRENT may name it all the same.
		return num == t.journal.num || t.journal.broken && num > t.journal.num
	}
	return false
}
