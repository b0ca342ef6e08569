package shale

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// A creation is what Open makes on disk before it succeeds, so that a failed one
// leaves nothing behind.
type creation struct {
	dirs  []string // that were not there, the deepest first
	lock  bool     // the lock file was not there
	store bool     // there was no store
	found []string // what the directory held besides, if there was no store
}

// noteMissing notes which of the directories up to the store's are not there.
func (c *creation) noteMissing(fsys vfs.FS, dir string) error {
	for {
		if _, err := fsys.Stat(dir); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			c.dirs = nil
			return err
		}
		c.dirs = append(c.dirs, dir)
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	if len(c.dirs) == 0 {
		return nil
	}
	// A symbolic link to nowhere is there all the same.
	top := c.dirs[len(c.dirs)-1]
	names, err := fsys.List(filepath.Dir(top))
	if err != nil || slices.Contains(names, filepath.Base(top)) {
		c.dirs = nil // nobody knows, or it is one
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil // directories can be made where they can't be listed
	}
	return err
}

// undoCreation removes what a failed Open has made, and nothing else: the files of
// a store that was not there, the lock file, directories. It is a best effort:
// Open's error is the one to report. Requires: the lock is still held, if it was
// taken.
func (db *DB) undoCreation() {
	c := &db.made
	if db.lock == nil || c.store && !db.undoStore() {
		return
	}
	if c.lock {
		// Others who have opened the file to lock it notice that it was removed.
		_ = db.fs.Remove(db.path(base.LockName))
	}
}

// undoStore removes the files of a store that Open was about to create, so that
// no crash meanwhile leaves a damaged store: a log or a CURRENT alone would be
// one.
func (db *DB) undoStore() (done bool) {
	names, err := db.fs.List(db.dir)
	if err != nil {
		return false
	}
	for _, step := range [][]base.FileType{{base.FileLog}, {base.FileCurrent}, {base.FileManifest, base.FileTemp}} {
		// What was removed before, here or by who failed, must not come back
		// after a crash without what is removed now.
		if db.fs.SyncDir(db.dir) != nil {
			return false
		}
		for _, name := range names {
			t, n, ok := base.ParseFileName(name)
			if !ok || !slices.Contains(step, t) || n >= db.tree.PeekFileNum() || slices.Contains(db.made.found, name) {
				continue
			}
			if err := db.fs.Remove(db.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
	}
	return true
}

// undoDirs removes the directories that Open made and that are empty.
func (db *DB) undoDirs() {
	for _, dir := range db.made.dirs {
		if db.fs.Remove(dir) != nil {
			return
		}
	}
}
