package tablefs

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/shaledb/shale/remote/internal/object"
	"github.com/shaledb/shale/vfs"
)

// RemoveCopies removes the tails and the cache of pages, a file with the name pages, that a writer has left in a directory. The
// directory goes too, if nothing else is in it.
func RemoveCopies(fsys vfs.FS, dir, pages string) error {
	if err := newTailCache(fsys, dir, 0, nil).Sweep(func(object.Name) bool { return false }); err != nil {
		return err
	}
	if err := fsys.Remove(filepath.Join(dir, pages)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	top := filepath.Join(dir, filepath.FromSlash(object.TableFolder))
	folders, _ := fsys.List(top)
	for _, folder := range folders {
		_ = fsys.Remove(filepath.Join(top, folder)) // it has files of others if that fails, and so for the next two
	}
	_ = fsys.Remove(top)
	_ = fsys.Remove(dir)
	return nil
}
