package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/remote/internal/tablefs"
)

// The directory of a restore: how it is locked and marked, and what an interrupted restore has left
// there. CURRENT is absent until the end, so nothing can take a half of a store for a store.

// restoringName is the file that marks a directory in which a restore is under way. It is no name
// of shale's, and is removed at the end.
const restoringName = "RESTORING"

// restoringText is for people that look into the directory. Programs look for the name of the file
// only.
const restoringText = `A store is being restored into this directory, or that was interrupted. It can't be opened yet.
Restore it again, which goes on with what is here already, or remove the directory.
`

// prepare makes the directory and locks it. A directory that has anything else than what an interrupted
// restore leaves is refused.
func (r *restoration) prepare() (lock interface{ Close() error }, err error) {
	if err := r.refuse(); err != nil { // before anything is made
		return nil, err
	}
	if err := r.fs.MkdirAll(r.dir); err != nil {
		return nil, err
	}
	// From here until the end of the restore no other process restores into the directory, or opens
	// it.
	if lock, err = r.fs.Lock(r.path(base.LockName)); err != nil {
		return nil, err
	}
	if err = r.refuse(); err == nil {
		err = r.mark()
	}
	if err == nil {
		err = r.sweep()
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// refuse returns an error if the directory has a store, or files of others. It is asked twice: before anything is made, and
// again under the lock, since another restore may have begun in between.
func (r *restoration) refuse() error {
	names, err := r.fs.List(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == base.LockName })
	switch {
	case slices.Contains(names, base.CurrentName):
		return fmt.Errorf("the directory has a store already: choose another, or remove it: %w", fs.ErrExist)
	case len(names) > 0 && !slices.Contains(names, restoringName):
		return fmt.Errorf("the directory is not empty, it has %s: choose another: %w", names[0], fs.ErrExist)
	}
	return nil
}

// mark marks the directory, durably. A mark that is there stays: it may be a second name of another
// directory's.
func (r *restoration) mark() error {
	switch _, err := r.fs.Stat(r.path(restoringName)); {
	case err == nil:
		return r.fs.SyncDir(r.dir)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := durable.Write(r.fs, r.path(restoringName), []byte(restoringText)); err != nil {
		return err
	}
	return r.fs.SyncDir(r.dir)
}

// sweep removes the files of an interrupted restore that this one does not need. Tables and sidecars
// that it needs stay, and are checked before they are used.
func (r *restoration) sweep() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	// Temporary files were never finished, and logs are laid again, so both go.
	needed := map[string]bool{restoringName: true, base.LockName: true}
	for f := range tablefs.FilesOf(r.moment.State.Tables.Version) {
		needed[f.LocalName()] = true
	}
	for _, name := range names {
		if !needed[name] {
			err = errors.Join(err, r.fs.Remove(r.path(name)))
		}
	}
	return err
}

// path returns the path of a file of the directory.
func (r *restoration) path(name string) string { return filepath.Join(r.dir, name) }
