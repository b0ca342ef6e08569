package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

// promoteTries is how often Promote restores. The writer before is fenced at the first attempt, so it can't ship
// more during the second; a third one is for another program that promotes too.
const promoteTries = 3

// Promote makes this process the owner of the store: it restores the newest state into dir, which must be empty or not
// there, and opens it there for writing. The writer before is fenced: it can't acknowledge a write any more if it is
// Strict, and else none that the bucket will ever have. What it had acknowledged and not shipped is not
// here; Salvage lists it where its directory still is.
//
// Who may promote is for the program to decide. If two try at the same time, one of them gets ErrFenced.
//
// The Reader goes on as before, and follows the new Store. A Reader at a pin can't be promoted.
func (r *Reader) Promote(ctx context.Context, dir string, o *Options) (*Store, error) {
	if r.pinned != nil {
		return nil, fmt.Errorf("remote: promote: the reader is at pin %q, which is no newest state: open a reader without a pin", r.opts.Pin)
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	fsys := opts.Store.FS
	if fsys == nil {
		fsys = vfs.Default
	}
	if err := checkEmpty(fsys, dir); err != nil {
		return nil, fmt.Errorf("remote: promote: %w", err)
	}
	for attempt := 1; ; attempt++ {
		s, err := r.takeOver(ctx, fsys, dir, &opts)
		if err == nil {
			return s, nil
		}
		if attempt == promoteTries || !errors.Is(err, ErrFenced) || ctx.Err() != nil {
			return nil, fmt.Errorf("remote: promote: %w", err)
		}
		if err := empty(fsys, dir); err != nil {
			return nil, fmt.Errorf("remote: promote: remove what a first attempt has left: %w", err)
		}
	}
}

// takeOver is one attempt of Promote.
func (r *Reader) takeOver(ctx context.Context, fsys vfs.FS, dir string, o *Options) (*Store, error) {
	if _, err := Restore(ctx, r.b, dir, At{}, &RestoreOptions{FS: fsys, Parent: r.opts.Parent}); err != nil {
		return nil, err
	}
	return Open(ctx, dir, r.b, o)
}

// checkEmpty returns an error if a directory has files.
func checkEmpty(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(names) > 0:
		return fmt.Errorf("%s has %s: give an empty directory: %w", dir, names[0], fs.ErrExist)
	}
	return nil
}

// empty removes the files of a directory that was empty before.
func empty(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == base.LockName {
			continue
		}
		if err := fsys.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}
